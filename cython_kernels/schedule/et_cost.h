/* What a frame costs the generator and a chunk the decoder: measured all the time, to plan with.
 *
 * Times are in frames: 1.0 is the duration of one frame of sound. */
#ifndef ET_COST_H
#define ET_COST_H

#include <stdbool.h>

#include "base/et_limits.h"

typedef struct {
    double frame;            /* a frame, of the generator */
    int n_sizes;
    int sizes[ET_MAX_SIZES]; /* of the decoder's chunks in frames, ascending, the first one is 1 */
    double chunk[ET_MAX_SIZES]; /* a chunk of each size, of the decoder */
    int turns;               /* both share the CPUs and take turns; 0: both compute at the same time */
    double spread;           /* by how much the time of a chunk with its frames differs, as a share of it */
    double late;             /* by how much the latest of recent chunks came too late */
} et_costs;

/* The largest of the decoder's sizes (ascending) that is at most n; 0 when none. */
int et_fit_size(const int *sizes, int n_sizes, int n);
/* A chunk of one of the sizes. */
double et_cost_of_size(const et_costs *c, int size);
/* Decoding n frames, in parts when n is none of the sizes. */
double et_cost_decode(const et_costs *c, int n);
/* A frame in the long run, in chunks of n. */
double et_cost_rate(const et_costs *c, int n);

/* The measuring; its costs outlive an utterance. */
typedef struct {
    et_costs costs;
    int measured;            /* bits: 0 the frame, i + 1 size i; a cost that is not measured is a guess */
    double work;             /* of the generator, for the frames that wait for their chunk */
    bool settled;            /* nothing is measured, because the stages no longer get in each other's way */
} et_cost_meter;

/* rate: time of a frame over its duration, a guess for all that is never measured or expected. */
void et_cost_init(et_cost_meter *m, const int *sizes, int n_sizes, double rate);
/* Known from before: the time of a frame (size 0), or of a chunk of one of the sizes. ET_OK, or ET_E_ARG for another
 * size. */
int et_cost_expect(et_cost_meter *m, int size, double time);
/* Forget the frames that wait, and measure. */
void et_cost_begin(et_cost_meter *m);
/* A frame came that took the generator so long; 0: not known. */
void et_cost_frame(et_cost_meter *m, double time);
/* A chunk of n frames, one of the sizes, was decoded in so long; `left` frames wait after it. */
void et_cost_chunk(et_cost_meter *m, int n, int left, double time);
/* The costs to plan with, a little higher than measured. */
et_costs et_cost_expected(const et_cost_meter *m, int turns);

#endif
