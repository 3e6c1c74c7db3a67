/* Plain functions over the pipe's atomics, for callers that have no C11 atomics (Cython). */
#ifndef ET_PIPE_ATOMICS_H
#define ET_PIPE_ATOMICS_H

#include "et_pipe.h"

static inline uint32_t et_pipe_generation(const et_pipe *p) { return atomic_load(&p->generation); }
static inline int et_pipe_is_stopping(const et_pipe *p) { return et_pipe_stopping(p); }
static inline int et_pipe_is_paused(const et_pipe *p) { return atomic_load(&p->paused); }
static inline int64_t et_pipe_pending_frames(const et_pipe *p) { return atomic_load(&p->pending_frames); }
/* Before a new generation: how much to buffer at least, and how long the utterance may become. */
static inline void et_pipe_set_plan(et_pipe *p, int64_t min_start, int64_t expected_frames)
{
    atomic_store(&p->min_start, min_start < 1 ? 1 : min_start);
    atomic_store(&p->start_samples, min_start < 1 ? 1 : min_start);
    atomic_store(&p->limit, p->config.backpressure);
    atomic_store(&p->expected_frames, expected_frames);
}
/* Of the live utterance, whose text has grown. */
static inline void et_pipe_set_expected(et_pipe *p, int64_t frames) { atomic_store(&p->expected_frames, frames); }
static inline void et_pipe_set_gain(et_pipe *p, float gain) { atomic_store(&p->gain, gain); }
static inline int et_pipe_is_tracing(const et_pipe *p) { return et_pipe_tracing(p); }
static inline uint64_t et_pipe_lost(const et_pipe *p) { return atomic_load(&p->steps_lost); }
static inline uint64_t et_pipe_counter(const et_pipe *p, int which)
{
    switch (which) {
    case 0: return atomic_load(&p->generator_beat);
    case 1: return atomic_load(&p->decoder_beat);
    case 2: return atomic_load(&p->playout_beat);
    case 3: return atomic_load(&p->frames_generated);
    case 4: return atomic_load(&p->frames_decoded);
    case 5: return atomic_load(&p->samples_out);
    default: return atomic_load(&p->underruns);
    }
}

#endif
