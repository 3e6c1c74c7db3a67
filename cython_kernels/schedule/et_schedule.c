/* See et_schedule.h. */
#include "et_schedule.h"

#include <math.h>

/* Lateness that is allowed for, in mean deviations: one chunk in fifty is later. */
static const double LATE = 2.5;
/* Frames that are looked ahead: two minutes and more of speech. Past any ramp the gaps grow or shrink evenly. */
enum { HORIZON = 2048 };

int et_schedule_check(const et_schedule *s)
{
    if (s->kind < ET_SCHEDULE_FIXED || s->kind > ET_SCHEDULE_ADAPTIVE || s->n < 1 || s->n > 16)
        return ET_E_ARG;
    for (int i = 0; i < s->n; i++)
        if (s->chunks[i] < 1 || s->chunks[i] > ET_MAX_CHUNK)
            return ET_E_ARG;
    return ET_OK;
}

int et_fit_size(const int *sizes, int n_sizes, int n)
{
    int best = 0;
    for (int i = 0; i < n_sizes; i++)
        if (sizes[i] <= n)
            best = sizes[i];
    return best;
}

static double cost_of_size(const et_costs *c, int size)
{
    int i = 0;
    while (c->sizes[i] != size)
        i++;
    return c->chunk[i];
}

double et_cost_decode(const et_costs *c, int n)
{
    double sum = 0;
    while (n > 0) {
        int size = et_fit_size(c->sizes, c->n_sizes, n);
        sum += cost_of_size(c, size);
        n -= size;
    }
    return sum;
}

double et_cost_rate(const et_costs *c, int n)
{
    double decode = et_cost_decode(c, n) / n;
    return c->turns ? c->frame + decode : fmax(c->frame, decode);
}

et_costs et_costs_times(const et_costs *c, double factor)
{
    et_costs result = *c;
    result.frame *= factor;
    for (int i = 0; i < c->n_sizes; i++)
        result.chunk[i] *= factor;
    return result;
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
        if (n > best && time * (1.0 + LATE * c->spread) + c->late <= at->ahead)
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

double et_start_shortage(const et_schedule *s, const et_costs *c, const et_standing *at, int remaining, int open)
{
    et_standing now = *at;
    double made = at->ahead, worst = -INFINITY;
    double generated = 0, decoded = 0;  /* when each of the two is done with what it did last */
    double variance = 0;
    if (remaining > HORIZON)
        remaining = HORIZON;
    if (remaining < at->queued)
        remaining = at->queued;
    for (int left = remaining;; left--, now.pending++) {
        while (now.pending > 0) {
            now.ahead = made - decoded - LATE * sqrt(variance);
            int want = et_schedule_next(s, c, &now);
            if (now.pending >= want)
                now.index++;
            else if (left > 0 || open)
                break;
            else
                want = now.pending;
            double step = c->spread * (want * c->frame + et_cost_decode(c, want));
            variance += step * step;
            double late = LATE * sqrt(variance) + c->late;
            while (want > 0) {
                int n = et_fit_size(c->sizes, c->n_sizes, want);
                decoded += cost_of_size(c, n);
                if (c->turns)
                    generated = decoded;
                int unheard = now.drop < n ? now.drop : n;
                now.drop -= unheard;
                if (n > unheard) {
                    worst = fmax(worst, decoded + late - made);
                    made += n - unheard;
                }
                want -= n;
                now.pending -= n;
            }
        }
        if (left <= 0 && !(open && now.pending > 0))
            return worst;
        if (now.queued > 0)
            now.queued--;
        else
            generated += c->frame;
        decoded = fmax(decoded, generated);
    }
}
