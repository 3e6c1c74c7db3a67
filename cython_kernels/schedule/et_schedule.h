/* Which chunk the decoder takes next, and when playout may start. Pure functions over plain data.
 *
 * Times and amounts of audio are in frames: 1.0 is the duration of one frame of sound. */
#ifndef ET_SCHEDULE_H
#define ET_SCHEDULE_H

#include "base/et_types.h"

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

enum { ET_MAX_SIZES = 8 };

/* What a frame takes the generator, and a chunk of each of the decoder's sizes the decoder. */
typedef struct {
    double frame;
    int n_sizes;
    int sizes[ET_MAX_SIZES]; /* ascending, the first one is 1 */
    double chunk[ET_MAX_SIZES];
    int turns;             /* both share the CPUs and take turns; 0: they compute at the same time */
    double spread;         /* by how much a chunk with its frames differs from this, as a share of it */
    double late;           /* by how much the latest chunk of recent ones came too late */
} et_costs;

/* Where the decoder stands. */
typedef struct {
    int index;             /* number of the next chunk */
    int pending;           /* frames that wait for the rest of their chunk */
    int queued;            /* frames that are generated already and come after those */
    int drop;              /* frames that will be decoded and not heard */
    double ahead;          /* audio that lies before the listener, or waits for him */
} et_standing;

/* ET_OK or ET_E_ARG. */
int et_schedule_check(const et_schedule *s);
/* The largest of the decoder's sizes (ascending) that is at most n; 0 when none. */
int et_fit_size(const int *sizes, int n_sizes, int n);
/* Time to decode n frames, in parts when n is none of the sizes. */
double et_cost_decode(const et_costs *c, int n);
/* Time that a frame takes in the long run, in chunks of n. */
double et_cost_rate(const et_costs *c, int n);
/* The same with every cost so many times as high. */
et_costs et_costs_times(const et_costs *c, double factor);

/* Frames of the next chunk. Adaptive: never so many that what lies ahead runs out before they are made, as long as
 * the smallest chunk keeps pace; where none does, the largest. */
int et_schedule_next(const et_schedule *s, const et_costs *c, const et_standing *at);
/* By how much playing would run dry if it began now and `remaining` more frames came at these costs: the longest gap,
 * below 0 when there is none (by how much it is missed). Chunks may be late by their spread; early and late ones
 * make up for each other, so that this grows with the root of their number; and once as late as the latest. open: more may come, so the last chunk waits to be full. */
double et_start_shortage(const et_schedule *s, const et_costs *c, const et_standing *at, int remaining, int open);

#endif
