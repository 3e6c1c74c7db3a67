/* When playing starts, and how far the generator may run ahead until then. Pure functions over plain data.
 *
 * The rule: playing starts as soon as it will not run dry any more, or when everything is there. */
#ifndef ET_START_H
#define ET_START_H

#include <stdint.h>

#include "et_schedule.h"

/* What does not change during an utterance. */
typedef struct {
    int samples_per_frame;
    int64_t least;         /* samples: playing never starts with less */
    int64_t expected;      /* frames that the utterance probably has; 0: unknown */
    int64_t capacity;      /* samples that the PCM ring holds */
    int64_t backpressure;  /* samples that the generator may always be ahead */
} et_start_bounds;

typedef struct {
    int64_t samples;       /* so many must wait before playing starts */
    int64_t limit;         /* so many the generator may be ahead for that */
} et_start;

/* By how much playing would run dry, in frames, if it began now and `remaining` more frames came at these costs: the
 * longest gap; or, below 0, the time to spare where there is no gap. Chunks may be late: all together by
 * their spread, which grows with the root of their number because early and late ones make up for each other, and each
 * one by as much as the latest of recent chunks was. open: the utterance may go on after `remaining`, so the last chunk
 * waits until it is full. */
double et_start_shortage(const et_schedule *s, const et_costs *c, const et_standing *at, int remaining, int open);

/* The plan as it looks now. at->ahead: audio that waits to be played; made: frames decoded so far. */
et_start et_start_plan(const et_schedule *s, const et_costs *c, const et_standing *at, const et_start_bounds *b,
                       int64_t made);

/* Samples that playout waits for: a plan's, but never more than the PCM ring and the generator's limit let come,
 * because that would be waited for in vain. */
int64_t et_start_threshold(int64_t samples, int64_t capacity, int64_t limit);

/* Frames to have ready for an utterance of `frames` on CPUs that are `slower` times as slow as when `rate` (time of a
 * frame over its duration) was measured; 0 where they are not slower. */
int64_t et_start_slower(int64_t frames, double rate, double slower);

#endif
