/* Between decoder and playout: samples, the blocks that announce them, and how many of them may be played.
 *
 * Private to pipe/; other rooms include et_pipe.h. */
#ifndef ET_PIPE_BLOCKS_H
#define ET_PIPE_BLOCKS_H

#include "et_pipe_state.h"

/* Decoder: convert n float samples in -1..1 to s16 with the gain (rounded to nearest, clipped) and append them
 * as a block; waits while the ring is full. n may exceed the ring, because samples go in as far as there is room.
 * pcm NULL appends n samples of silence. Returns ET_OK, ET_E_STALE, ET_E_STOPPED. */
int et_pipe_push_pcm(et_pipe *p, uint32_t generation, const float *pcm, size_t n);
int et_pipe_push_end(et_pipe *p, uint32_t generation, uint16_t reason);
int et_pipe_push_mark(et_pipe *p, uint32_t generation, const et_mark *mark);

/* Decoder: the generation has run away. Its frames are refused from now on, and of its samples, pauses included,
 * only the first `keep` are played. Its end comes as always, through the items. */
void et_pipe_run_away(et_pipe *p, uint32_t generation, uint32_t keep);
bool et_pipe_ran_away(const et_pipe *p, uint32_t generation);
/* Playout: how many of the generation's samples may be played. */
int64_t et_pipe_keep(const et_pipe *p, uint32_t generation);

/* Decoder: a sink that takes samples as fast as they come (a reader, not a device) may have only the first `samples`
 * of the generation until this is called again, because what follows may be a runaway's silence. INT64_MAX: all. */
void et_pipe_hold(et_pipe *p, uint32_t generation, int64_t samples);
/* Playout: how many samples such a sink may have. */
int64_t et_pipe_may_have(const et_pipe *p, uint32_t generation);
/* Playout: the sink could take more than that. The generator then runs ahead of its backpressure limit, because the
 * decoder needs more frames to decide. */
void et_pipe_hold_back(et_pipe *p, uint32_t generation);

/* Playout: the block at the front of the live generation without consuming it; stale blocks and their samples
 * are skipped. Returns 1 with *block (samples: those not yet read of it), 0 when there is none. */
int et_pipe_front(et_pipe *p, et_block *block);
/* Playout: read up to n samples of the front block (kind PCM); the number read. The block is consumed with its
 * last sample. */
size_t et_pipe_read(et_pipe *p, int16_t *dst, size_t n);
/* Playout: consume a front block without samples: of kind END or MARK. */
void et_pipe_consume_end(et_pipe *p);
/* Playout: the newest block, whatever its generation (samples are those it was made with or what is left of it).
 * Returns 1, or 0 when there is none. */
int et_pipe_last(const et_pipe *p, et_block *block);
/* Samples in the PCM ring, stale ones included. */
size_t et_pipe_buffered(const et_pipe *p);

#endif
