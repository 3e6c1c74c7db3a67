/* What every source of frames keeps to, wherever its frames are made: the bounds of a segment (a sentence), and how
 * its items enter the pipe. The generator's loop uses it directly, a source that reads frames from elsewhere through
 * cython_kernels.frames. One thread, the pipe's generator. */
#ifndef ET_FRAMES_H
#define ET_FRAMES_H

#include "et_runaway.h"
#include "pipe/et_pipe.h"

typedef struct {
    uint32_t generation;
    int max_frames;
    int drop_frames;        /* leading frames that are decoded and dropped */
    int end_frames;         /* complete after exactly this many frames, whose codes may repeat; 0: off */
    int repeat_frames;      /* more codes of codebook 0 in a row than this that repeat are a runaway; 0: never */
    int repeat_period;      /* the longest repeated pattern, frames */
} et_bounds;

typedef struct {
    et_pipe *pipe;
    et_bounds bounds;
    et_repeat repeat;
    et_item item;           /* the frame to be pushed next: the source writes its codes */
    int frames;             /* pushed so far */
    int64_t wait_ns;        /* of the pushes: for room, and for the decoder's turn */
    int64_t first_ns;       /* CLOCK_MONOTONIC of the first frame pushed, 0 when none */
} et_frames;

/* ET_OK, ET_E_STALE or ET_E_STOPPED: whether the generation is still wanted. */
int et_frames_alive(const et_pipe *p, uint32_t generation);

/* The segment begins: pushes SEG_BEGIN. ET_OK, ET_E_STALE or ET_E_STOPPED. */
int et_frames_begin(et_frames *f, et_pipe *pipe, const et_bounds *bounds);

/* Whether one more frame may follow, whose first code is c0: 0, or the reason to end without it: ET_LIMIT, or
 * ET_RUNAWAY where the codes repeat. Once before each push. */
int et_frames_admit(et_frames *f, int c0);

/* Push f->item.codes as the next frame; waits for room. cost_ns: what the frame took its source, waiting for room
 * excluded; for frames that come from elsewhere the time between their arrivals; 0: not known.
 * ET_OK, ET_E_STALE, ET_E_STOPPED, or ET_E_RUNAWAY when the decoder has said so. */
int et_frames_push(et_frames *f, int64_t cost_ns);

/* The segment is over: pushes SEG_END. ET_OK, ET_E_STALE or ET_E_STOPPED. */
int et_frames_end(et_frames *f);

/* Wait until fd can be read or has ended, at most timeout_ms; waiting is progress for the watchdog.
 * 1, or 0 when the time has passed, or ET_E_STALE or ET_E_STOPPED at once when it is no longer wanted. */
int et_frames_wait(et_pipe *p, uint32_t generation, int fd, int timeout_ms);

/* Wait for what the generator is woken for, ET_WAIT_MS at most; waiting is progress for the watchdog.
 * ET_OK, or ET_E_STALE or ET_E_STOPPED when it is no longer wanted. */
int et_frames_doze(et_pipe *p, uint32_t generation);

/* The enum et_reason with which a segment ends that met this error. */
int et_frames_reason(int error);

#endif
