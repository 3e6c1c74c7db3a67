/* Which chunk the decoder takes next. Pure functions over plain data.
 *
 * Times and amounts of audio are in frames: 1.0 is the duration of one frame of sound. */
#ifndef ET_SCHEDULE_H
#define ET_SCHEDULE_H

#include "base/et_types.h"
#include "et_cost.h"

enum et_schedule_kind {
    ET_SCHEDULE_FIXED = 0, /* always chunks[0] */
    ET_SCHEDULE_RAMP,      /* chunks[0], chunks[1], ... then the last one for good */
    ET_SCHEDULE_ADAPTIVE,  /* the largest chunk that is ready before the audio ahead runs out */
};

typedef struct {
    int kind;
    int n;
    int chunks[ET_MAX_STEPS];  /* frames, 1 .. ET_MAX_CHUNK */
} et_schedule;

/* Where the decoder stands. */
typedef struct {
    int index;             /* number of the next chunk */
    int pending;           /* frames that wait for the rest of their chunk */
    int queued;            /* frames that are generated already and come after the pending ones */
    int drop;              /* frames that will be decoded and not heard */
    double ahead;          /* audio that was made and not yet heard */
} et_standing;

/* How much later than expected chunks may come, in mean deviations: one chunk in fifty is later. */
#define ET_SCHEDULE_LATE 2.5

/* ET_OK or ET_E_ARG. */
int et_schedule_check(const et_schedule *s);

/* Frames of the next chunk. The adaptive schedule takes the largest chunk that is ready before the audio ahead runs
 * out. It takes no chunk that is smaller than the smallest that keeps pace with the listener; where no chunk keeps
 * pace, it takes the largest of all, because a frame is cheapest there. */
int et_schedule_next(const et_schedule *s, const et_costs *c, const et_standing *at);

#endif
