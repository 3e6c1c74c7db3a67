/* See et_start.h. */
#include "et_start.h"

#include <math.h>

/* Frames that are looked ahead: two minutes and more of speech. Past any ramp the gaps grow or shrink evenly. */
enum { HORIZON = 2048 };
/* An estimated length may be too low by a seventh, or by some frames. */
static const double LONGER = 1.15;
enum { MORE_FRAMES = 4 };

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
            now.ahead = made - decoded - ET_SCHEDULE_LATE * sqrt(variance);
            int want = et_schedule_next(s, c, &now);
            if (now.pending >= want)
                now.index++;
            else if (left > 0 || open)
                break;
            else
                want = now.pending;
            double step = c->spread * (want * c->frame + et_cost_decode(c, want));
            variance += step * step;
            double late = ET_SCHEDULE_LATE * sqrt(variance) + c->late;
            while (want > 0) {
                int n = et_fit_size(c->sizes, c->n_sizes, want);
                decoded += et_cost_of_size(c, n);
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
/* Frames that may still come after those made. While there is no end there is more, because an estimate may be too
 * low. */
static int remaining_frames(int64_t expected, int64_t made)
{
    double out = (double)made, left = fmax(LONGER * (double)expected, (double)expected + MORE_FRAMES) - out;
    return (int)ceil(fmin(fmax(left, fmax((LONGER - 1) * out, MORE_FRAMES)), 1e6));
}

et_start et_start_plan(const et_schedule *s, const et_costs *c, const et_standing *at, const et_start_bounds *b,
                       int64_t made)
{
    const int spf = b->samples_per_frame;
    double need = fmax(at->ahead + et_start_shortage(s, c, at, remaining_frames(b->expected, made), 1), 0) * spf;
    need = fmax(need, (double)b->least);
    /* Never more than the ring holds beside one chunk, because that would be waited for in vain. */
    double most = (double)b->capacity - 2.0 * ET_MAX_CHUNK * spf;
    need = fmin(need, fmax(most, spf));
    et_start start = {.samples = (int64_t)need, .limit = (int64_t)need + ET_MAX_CHUNK * spf};
    if (start.limit < b->backpressure)
        start.limit = b->backpressure;
    return start;
}

int64_t et_start_threshold(int64_t samples, int64_t capacity, int64_t limit)
{
    int64_t most = capacity < limit ? capacity : limit;
    int64_t n = samples < most ? samples : most;
    return n > 1 ? n : 1;
}

int64_t et_start_slower(int64_t frames, double rate, double slower)
{
    double late = slower > 1 ? (double)frames * (rate * slower - 1) : 0;
    return late > 0 ? (int64_t)ceil(late) : 0;
}
