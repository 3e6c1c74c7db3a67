/* See et_runaway.h. */
#include "et_runaway.h"

#include <math.h>
#include <string.h>

/* Frames below this power (-60 dB of full scale) are no speech to compare with. */
static const double SPEECH_FLOOR = 1e-6;

void et_quiet_init(et_quiet *q, int limit, double db)
{
    memset(q, 0, sizeof *q);
    q->limit = limit;
    q->ratio = pow(10.0, -db / 10.0);
}

void et_quiet_begin_utterance(et_quiet *q)
{
    q->loudest = 0;
    q->quiet = 0;
}

void et_quiet_begin_segment(et_quiet *q)
{
    q->quiet = 0;
}

static double power_of(const float *pcm, size_t n)
{
    double power = 0;
    for (size_t i = 0; i < n; i++)
        power += (double)pcm[i] * pcm[i];
    return power / (double)n;
}

size_t et_quiet_end(const et_quiet *q, const float *pcm, size_t n, size_t block, int at_begin)
{
    size_t quiet = 0;
    while (q->loudest > 0 && block > 0 && quiet + block <= n) {
        const float *next = at_begin ? pcm + quiet : pcm + n - quiet - block;
        if (!(power_of(next, block) < q->loudest * q->ratio))
            break;
        quiet += block;
    }
    return quiet;
}

int et_quiet_frame(et_quiet *q, const float *pcm, size_t n)
{
    double power = power_of(pcm, n);
    if (power > q->loudest && power > SPEECH_FLOOR)
        q->loudest = power;
    /* Not a number is no speech either. */
    if (q->loudest > 0 && !(power >= q->loudest * q->ratio))
        q->quiet++;
    else
        q->quiet = 0;
    return q->limit > 0 && q->quiet > q->limit;
}

void et_repeat_begin(et_repeat *r, int limit, int longest)
{
    memset(r, 0, sizeof *r);
    r->limit = limit;
    r->longest = longest < ET_MAX_PERIOD ? longest : ET_MAX_PERIOD;
}

int et_repeat_code(et_repeat *r, int code)
{
    int over = 0;
    for (int period = 1; period <= r->longest && period <= r->n; period++) {
        int same = r->history[(r->n - period) % ET_MAX_PERIOD] == code;
        r->run[period] = same ? r->run[period] + 1 : 0;
        over |= r->limit > 0 && r->run[period] > r->limit;
    }
    r->history[r->n++ % ET_MAX_PERIOD] = code;
    return over;
}
