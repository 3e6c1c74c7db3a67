/* The playout thread's state machine; private to et_playout*.c.
 *
 *   IDLE -> WAITING (for enough samples) -> PLAYING -> DRAINING -> ENDED
 *              ^--------- ran dry -----------'
 * A new generation leads back to IDLE from anywhere, once what sounds has faded; a failed sink leads to ENDED. */
#ifndef ET_PLAYOUT_STEP_H
#define ET_PLAYOUT_STEP_H

#include "pipe/et_pipe.h"
#include "et_playout.h"
#include "et_sink.h"
#include "et_sink_choice.h"

enum { ET_PLAYOUT_PIECE = 512 };

enum et_playout_state { IDLE, WAITING, PLAYING, DRAINING, ENDED };

struct et_playout {
    int preroll_ms, postroll_ms;

    et_sink_choice choice;     /* shared with the loop */

    /* The thread's own. */
    enum et_playout_state state;
    uint32_t generation;
    et_sink *sink;             /* of this utterance; NULL before its first block and after its end */
    et_sink *idle;             /* kept open after an utterance */
    int64_t idle_until;        /* ns; -1: for ever */
    bool started;              /* ET_EV_STARTED was posted */
    bool running, paused, gap; /* sink started; sink holds; the sink ran dry and nothing came yet */
    bool fading;               /* before a stop or a pause the sink fades */
    int64_t fade_until;        /* ns; a fade that takes longer is cut */
    int reason;                /* of the END block */
    int64_t accepted, samples; /* frames the sink took: all, and without the silence around */
    int64_t preroll, postroll; /* frames of silence left to write */
    int64_t preroll_total;
    int64_t tail, tail_total;  /* frames of the fading echo after the last sample: left to write; all, -1 unknown */
    int64_t underruns;
    int64_t progress_ns, last_heard;
    int16_t piece[ET_PLAYOUT_PIECE];      /* read from the pipe, not yet taken by the sink */
    size_t have, gone;
    int16_t past[ET_PLAYOUT_PIECE];       /* the last samples that the sink took, oldest first; the first are zeros */
    int16_t echo[ET_PLAYOUT_PIECE];
};

enum et_playout_next { SLEEP, AGAIN, SLEEP_FOR_SINK };

/* Do what can be done now. SLEEP: until woken, or after *timeout_ms (untouched: none); SLEEP_FOR_SINK: until the
 * sink takes or has heard more, too; AGAIN: call at once. */
enum et_playout_next et_playout_step(et_pipe *p, et_playout *o, int *timeout_ms);

/* The sink failed: silence, and ET_EV_DEVICE with the negative errno. */
void et_playout_fail(et_pipe *p, et_playout *o, int err);

/* Close the sink that was kept open, when there is one. */
void et_playout_close_idle(et_playout *o);

/* Leave: silence, all closed, no event. */
void et_playout_leave(et_playout *o);

#endif
