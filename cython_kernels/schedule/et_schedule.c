/* See et_schedule.h. */
#include "et_schedule.h"

#include <math.h>

int et_schedule_check(const et_schedule *s)
{
    if (s->kind < ET_SCHEDULE_FIXED || s->kind > ET_SCHEDULE_ADAPTIVE || s->n < 1 || s->n > ET_MAX_STEPS)
        return ET_E_ARG;
    for (int i = 0; i < s->n; i++)
        if (s->chunks[i] < 1 || s->chunks[i] > ET_MAX_CHUNK)
            return ET_E_ARG;
    return ET_OK;
}

static int adaptive(const et_schedule *s, const et_costs *c, const et_standing *at)
{
    int largest = s->chunks[0], pace = 0, best = 0;
    for (int i = 0; i < s->n; i++) {
        int n = s->chunks[i];
        if (n > largest)
            largest = n;
        if ((pace == 0 || n < pace) && et_cost_rate(c, n) <= 1.0)
            pace = n;
    }
    if (pace == 0)
        return largest;
    best = pace;
    for (int i = 0; i < s->n; i++) {
        int n = s->chunks[i], missing = n - at->pending - at->queued;
        double time = (missing > 0 ? missing : 0) * c->frame + et_cost_decode(c, n);
        if (n > best && time * (1.0 + ET_SCHEDULE_LATE * c->spread) + c->late <= at->ahead)
            best = n;
    }
    return best;
}

int et_schedule_next(const et_schedule *s, const et_costs *c, const et_standing *at)
{
    if (s->kind == ET_SCHEDULE_FIXED)
        return s->chunks[0];
    if (s->kind == ET_SCHEDULE_RAMP)
        return s->chunks[at->index < s->n ? at->index : s->n - 1];
    return adaptive(s, c, at);
}
