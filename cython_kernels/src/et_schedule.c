/* See et_schedule.h. */
#include "et_schedule.h"

/* Head room on the measured rate: a frame in ten may be late. */
static const double RATE_MARGIN = 1.1;

int et_schedule_check(const et_schedule *s)
{
    if (s->kind < ET_SCHEDULE_FIXED || s->kind > ET_SCHEDULE_ADAPTIVE || s->n < 1 || s->n > 16)
        return ET_E_ARG;
    for (int i = 0; i < s->n; i++)
        if (s->chunks[i] < 1 || s->chunks[i] > ET_MAX_CHUNK)
            return ET_E_ARG;
    return ET_OK;
}

int et_schedule_next(const et_schedule *s, int index, double buffered, double rate)
{
    if (s->kind == ET_SCHEDULE_FIXED)
        return s->chunks[0];
    if (s->kind == ET_SCHEDULE_RAMP)
        return s->chunks[index < s->n ? index : s->n - 1];
    int best = s->chunks[0];
    for (int i = 0; i < s->n; i++)
        if (s->chunks[i] * rate * RATE_MARGIN + 1.0 <= buffered && s->chunks[i] > best)
            best = s->chunks[i];
    return best;
}

int et_fit_size(const int *sizes, int n_sizes, int n)
{
    int best = 0;
    for (int i = 0; i < n_sizes; i++)
        if (sizes[i] <= n)
            best = sizes[i];
    return best;
}

double et_start_frames(const et_schedule *s, int index, double remaining, double rate, double min_frames)
{
    double need = min_frames, before = 0, sum = 0;
    rate *= RATE_MARGIN;
    /* Past the ramp the condition grows or falls linearly, so a bounded look ahead and the last chunk suffice. */
    for (int i = 0; i < 64 && sum < remaining; i++) {
        int n = s->kind == ET_SCHEDULE_ADAPTIVE ? s->chunks[0] : et_schedule_next(s, index + i, 0, rate);
        sum = before + n < remaining ? before + n : remaining;
        if (rate * sum - before > need)
            need = rate * sum - before;
        before = sum;
    }
    int last = s->chunks[s->kind == ET_SCHEDULE_RAMP ? s->n - 1 : 0];
    if (rate * remaining - (remaining - last) > need && remaining > last)
        need = rate * remaining - (remaining - last);
    return need;
}
