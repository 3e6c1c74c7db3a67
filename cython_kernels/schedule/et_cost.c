/* See et_cost.h. */
#include "et_cost.h"

#include <math.h>
#include <string.h>

#include "base/et_types.h"

/* Weight of a new measurement of a cost, and of the spread. */
static const double WEIGHT = 0.25, SPREAD_WEIGHT = 0.1;
static const double SPREAD_GUESS = 0.05, MOST_SPREAD = 0.5;
/* A late chunk is remembered, less with every chunk that is not as late; at most so late, in frames of time. */
static const double LATE_KEPT = 0.97, LATE_GUESS = 0.25, MOST_LATE = 4;
/* Head room on every cost beside its spread, because a machine may become a little slower for good. */
static const double MARGIN = 1.03;

int et_fit_size(const int *sizes, int n_sizes, int n)
{
    int best = 0;
    for (int i = 0; i < n_sizes; i++)
        if (sizes[i] <= n)
            best = sizes[i];
    return best;
}

double et_cost_of_size(const et_costs *c, int size)
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
        sum += et_cost_of_size(c, size);
        n -= size;
    }
    return sum;
}

double et_cost_rate(const et_costs *c, int n)
{
    double decode = et_cost_decode(c, n) / n;
    return c->turns ? c->frame + decode : fmax(c->frame, decode);
}

void et_cost_init(et_cost_meter *m, const int *sizes, int n_sizes, double rate)
{
    memset(m, 0, sizeof *m);
    m->costs.spread = SPREAD_GUESS;
    m->costs.late = LATE_GUESS;
    m->costs.n_sizes = n_sizes;
    m->costs.frame = rate / 2;
    for (int i = 0; i < n_sizes; i++) {
        m->costs.sizes[i] = sizes[i];
        m->costs.chunk[i] = rate / 2 * sizes[i];
    }
}

int et_cost_expect(et_cost_meter *m, int size, double time)
{
    if (size == 0) {
        m->costs.frame = time;
        m->measured |= 1;
        return ET_OK;
    }
    for (int i = 0; i < m->costs.n_sizes; i++) {
        if (m->costs.sizes[i] == size) {
            m->costs.chunk[i] = time;
            m->measured |= 2 << i;
            return ET_OK;
        }
    }
    return ET_E_ARG;
}

void et_cost_begin(et_cost_meter *m)
{
    m->work = 0;
    m->settled = false;
}

static double blend(et_cost_meter *m, int bit, double old, double new)
{
    bool first = !(m->measured & bit);
    m->measured |= bit;
    return first ? new : old + WEIGHT * (new - old);
}

void et_cost_frame(et_cost_meter *m, double time)
{
    m->work += time;
    if (time > 0 && !m->settled)
        m->costs.frame = blend(m, 1, m->costs.frame, time);
}

void et_cost_chunk(et_cost_meter *m, int n, int left, double time)
{
    et_costs *c = &m->costs;
    double work = m->work * n / (left + n);
    int i = 0;
    while (c->sizes[i] != n)
        i++;
    m->work -= work;
    if (m->settled)
        return;
    bool known = (m->measured & 1) && (m->measured & 2 << i);
    double expected = c->chunk[i] + (work > 0 ? n * c->frame : 0), over = time + work - expected;
    if (known && expected > 0) {
        c->late = fmin(fmax(LATE_KEPT * c->late, over), MOST_LATE);
        c->spread += SPREAD_WEIGHT * (fabs(over) / expected - c->spread);
    }
    c->chunk[i] = blend(m, 2 << i, c->chunk[i], time);
    /* A guess is no worse than what the other sizes take in proportion. */
    for (int k = 0; k < c->n_sizes; k++)
        if (!(m->measured & 2 << k))
            c->chunk[k] = c->chunk[i] * c->sizes[k] / n;
}

et_costs et_cost_expected(const et_cost_meter *m, int turns)
{
    et_costs costs = m->costs;
    costs.frame *= MARGIN;
    for (int i = 0; i < costs.n_sizes; i++)
        costs.chunk[i] *= MARGIN;
    costs.spread = fmin(costs.spread, MOST_SPREAD);
    costs.turns = turns;
    return costs;
}
