/* The decoder thread's loop: codes from the pipe to PCM in the pipe. */
#ifndef ET_DECODE_H
#define ET_DECODE_H

#include "decoder/et_decoder.h"
#include "pipe/et_pipe.h"
#include "et_pause.h"
#include "et_runaway.h"
#include "schedule/et_start.h"

typedef struct {
    et_pipe *pipe;
    et_decoder *decoder;
    et_schedule schedule;       /* of what is heard */
    et_schedule steady;         /* of renders: chunks that follow from the number of sentence and frame alone */
    et_quiet quiet;             /* its limits are set after et_decode_init; none by default */

    /* The utterance being decoded. */
    uint32_t generation;
    bool render;                /* it goes to a reader: its samples must not depend on when they are made */
    int failed;                 /* a chunk failed: the rest of this generation is thrown away */
    int ran_away;               /* only near-silence came: the rest is thrown away, but for its end */
    int chunk_index;
    int drop;                   /* frames still to be decoded and dropped */
    int pending;                /* frames in codes */
    int64_t first_ns;           /* when its first frame came */
    int64_t frames_in;          /* frames that came */
    int64_t start_ns;           /* when playing could begin, for who hears samples as they are made; 0: not yet */
    int64_t samples_made;       /* samples that went to playout */
    int64_t pushed;             /* the same with the pauses */
    et_pause pause;             /* the silence to the next sentence */
    int32_t sentence;           /* sentences of a render that are over */
    bool let_through;           /* quiet frames went to the reader although they may be those of a runaway */
    int64_t frames_out;         /* frames that were decoded */

    et_cost_meter meter;        /* what a frame and each chunk cost, as measured lately */

    int32_t codes[ET_MAX_CHUNK * ET_MAX_GROUPS];
    float *pcm;                 /* [ET_MAX_CHUNK * samples_per_frame] */
    et_delay delay;

    _Atomic int64_t decode_ns;  /* sum; for statistics */
    _Atomic int64_t chunks;
} et_decode;

/* rate: time of a frame over its duration, a guess for the first utterance. The decoder's warm_ns, et_decode_expect and
 * what the frames themselves say are each better than that, and replace it. */
int et_decode_init(et_decode *d, et_pipe *pipe, et_decoder *decoder, const et_schedule *schedule, double rate);
/* A cost that was measured before: seconds of a frame (size 0), or of a chunk of one of the decoder's sizes. ET_OK, or
 * ET_E_ARG for another size or a time that is no time. */
int et_decode_expect(et_decode *d, int size, double seconds);
/* Time of a frame over its duration in the long run, as last measured. */
double et_decode_rate(const et_decode *d);
void et_decode_free(et_decode *d);
/* Runs until et_pipe_stop. */
void et_decode_loop(et_decode *d);
/* For statistics, from any thread: nanoseconds spent in the decoder, and chunks decoded. */
static inline int64_t et_decode_ns(const et_decode *d) { return atomic_load(&d->decode_ns); }
static inline int64_t et_decode_chunks(const et_decode *d) { return atomic_load(&d->chunks); }

#endif
