/* The decoder thread's loop: codes from the pipe to PCM in the pipe. */
#ifndef ET_DECODE_H
#define ET_DECODE_H

#include "decoder/et_decoder.h"
#include "pipe/et_pipe.h"
#include "et_runaway.h"
#include "schedule/et_start.h"

typedef struct {
    et_pipe *pipe;
    et_decoder *decoder;
    et_schedule schedule;
    et_quiet quiet;             /* its limits are set after et_decode_init; none by default */

    /* The utterance being decoded. */
    uint32_t generation;
    int failed;                 /* decode failed: the rest of this generation is thrown away */
    int ran_away;               /* nothing but near-silence: the rest is thrown away, but for its end */
    int chunk_index;
    int drop;                   /* frames still to be decoded and dropped */
    int pending;                /* frames in codes */
    int64_t first_ns;           /* when its first frame came */
    int64_t frames_in;          /* frames that came */
    int64_t start_ns;           /* when a listener who hears it as it comes can begin; 0: not yet */
    int64_t samples_made;       /* samples that went to playout */
    int64_t pushed;             /* the same with the pauses */
    int64_t trailing;           /* quiet samples at the end of what was pushed of this sentence */
    int64_t reserve;            /* samples of a pause that the next sentence's own silence may stand for */
    int64_t frames_out;         /* frames that were decoded */

    et_cost_meter meter;        /* what a frame and each chunk cost, as measured lately */

    int32_t codes[ET_MAX_CHUNK * ET_MAX_GROUPS];
    float *pcm;                 /* [ET_MAX_CHUNK * samples_per_frame] */
    et_delay delay;

    _Atomic int64_t decode_ns;  /* sum; for statistics */
    _Atomic int64_t chunks;
} et_decode;

/* rate: time of a frame over its duration, as expected of the first utterance where nothing better is known: neither
 * the decoder's own warm_ns, nor et_decode_expect, nor what the frames themselves say. */
int et_decode_init(et_decode *d, et_pipe *pipe, et_decoder *decoder, const et_schedule *schedule, double rate);
/* What was measured before: seconds of a frame (size 0) or of a chunk of one of the decoder's sizes. */
int et_decode_expect(et_decode *d, int size, double seconds);
/* Time of a frame over its duration in the long run, as last measured. */
double et_decode_rate(const et_decode *d);
void et_decode_free(et_decode *d);
/* Runs until et_pipe_stop. */
void et_decode_loop(et_decode *d);

#endif
