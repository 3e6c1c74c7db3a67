/* Which chunk the decoder takes next, and when playout may start. Pure functions over plain data. */
#ifndef ET_SCHEDULE_H
#define ET_SCHEDULE_H

#include "et_types.h"

enum et_schedule_kind {
    ET_SCHEDULE_FIXED = 0, /* always chunks[0] */
    ET_SCHEDULE_RAMP,      /* chunks[0], chunks[1], ... then the last one for good */
    ET_SCHEDULE_ADAPTIVE,  /* the largest chunk that can be waited for without running dry */
};

typedef struct {
    int kind;
    int n;
    int chunks[16];        /* frames, 1 .. ET_MAX_CHUNK */
} et_schedule;

/* ET_OK or ET_E_ARG. */
int et_schedule_check(const et_schedule *s);
/* Frames of chunk number `index` of an utterance. Adaptive: `buffered` frames of PCM lie before the listener and
 * a new frame takes `rate` times its duration to make (generation and decoding). */
int et_schedule_next(const et_schedule *s, int index, double buffered, double rate);
/* The largest of the decoder's sizes (ascending) that is at most n; 0 when none. */
int et_fit_size(const int *sizes, int n_sizes, int n);

/* The start policy: frames to buffer before playing so that no later gap is predicted; at least min_frames.
 * `remaining` frames are still to come in the chunks from number `index` on, at `rate` times their duration.
 * Chunk k comes after rate * S(k), S(k) being the frames of all chunks up to it, and by then the buffer and the
 * chunks before must not have run out: P + S(k-1) >= rate * S(k). */
double et_start_frames(const et_schedule *s, int index, double remaining, double rate, double min_frames);

#endif
