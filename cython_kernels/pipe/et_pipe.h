/* The pipe: what lies between the threads, and the door of this room.
 *
 *   items   generator -> decoder   frames of codes, and the marks around them
 *   pcm     decoder -> playout     samples, with blocks that announce them
 *   events  decoder, playout -> asyncio loop
 *
 * Each ring has one writer and one reader. Every entry carries the generation that it was made for, and a reader throws
 * away what is not of the live generation; an abort is therefore one atomic store.
 *
 * A function's comment begins with the thread that may call it; where it names none, any thread may. */
#ifndef ET_PIPE_H
#define ET_PIPE_H

#include "et_pipe_blocks.h"
#include "et_pipe_state.h"
#include "et_turn.h"

/* NULL with *err set (ET_E_ARG, ET_E_MEMORY) on failure. */
et_pipe *et_pipe_create(const et_pipe_config *config, int *err);
void et_pipe_destroy(et_pipe *p);

/* Loop: make a new generation the live one and return it (never 0). Whatever belongs to the old one is dead from
 * this moment; all threads are woken. */
uint32_t et_pipe_next_generation(et_pipe *p);
void et_pipe_stop(et_pipe *p);
void et_pipe_set_paused(et_pipe *p, bool paused);

/* Generator: append an item; waits while the ring is full, and with a frame also while the backpressure limit is
 * reached. Returns ET_OK, ET_E_STALE, ET_E_STOPPED or, for a frame of what has run away, ET_E_RUNAWAY. */
int et_pipe_push_item(et_pipe *p, const et_item *item);

/* Decoder: next item of the live generation (stale ones are thrown away), waiting at most timeout_ms.
 * Returns 1, or 0 when none came, or ET_E_STOPPED. */
int et_pipe_pop_item(et_pipe *p, et_item *item, int timeout_ms);

/* Decoder and playout, each with its own queue: post an event and wake loop_fd. Underruns and sentences fill half of the
 * queue of 256 at most and are dropped beyond; any other event waits for room, in steps of 1 ms, until the loop reads or the pipe is
 * stopped. */
void et_pipe_post(et_pipe *p, et_ring *queue, uint32_t generation, int kind, int reason, int64_t value);
/* The same for ET_EV_SENTENCE. */
void et_pipe_post_mark(et_pipe *p, et_ring *queue, uint32_t generation, int64_t value, const et_mark *mark);
/* Loop: next event of either queue; 1 or 0. */
int et_pipe_next_event(et_pipe *p, et_event *event);

/* Record steps from now on; before the threads start. ET_OK or ET_E_MEMORY. */
int et_pipe_trace(et_pipe *p);
/* Generator and decoder, each with its own ring: keep a record. */
void et_pipe_keep_step(et_pipe *p, et_ring *ring, const et_step *step);

#endif
