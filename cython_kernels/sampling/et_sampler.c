/* See et_sampler.h. */
#include "et_sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int et_sampler_init(et_sampler *s, int vocab)
{
    memset(s, 0, sizeof *s);
    if (vocab < 1 || vocab > ET_MAX_VOCAB)
        return ET_E_ARG;
    s->vocab = vocab;
    s->work = calloc((size_t)vocab, sizeof *s->work);
    s->sorted = calloc((size_t)vocab, sizeof *s->sorted);
    s->seen = calloc((size_t)vocab, 1);
    if (!s->work || !s->sorted || !s->seen) {
        et_sampler_free(s);
        return ET_E_MEMORY;
    }
    et_sampler_restart(s, 0, 0);
    return ET_OK;
}

void et_sampler_free(et_sampler *s)
{
    free(s->work);
    free(s->sorted);
    free(s->seen);
    s->work = s->sorted = NULL;
    s->seen = NULL;
}

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void et_sampler_restart(et_sampler *s, uint64_t seed, uint64_t stream)
{
    memset(s->seen, 0, (size_t)s->vocab);
    uint64_t x = seed, y = stream ^ 0x5851f42d4c957f2du;
    for (int i = 0; i < 4; i++)
        s->rng[i] = splitmix64(&x) ^ splitmix64(&y);
    if (!(s->rng[0] | s->rng[1] | s->rng[2] | s->rng[3]))
        s->rng[0] = 1;
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* Uniform in [0, 1). */
static double uniform(et_sampler *s)
{
    uint64_t *r = s->rng, result = rotl(r[1] * 5, 7) * 9, t = r[1] << 17;
    r[2] ^= r[0];
    r[3] ^= r[1];
    r[1] ^= r[2];
    r[0] ^= r[3];
    r[2] ^= t;
    r[3] = rotl(r[3], 45);
    return (double)(result >> 11) * 0x1.0p-53;
}

/* The k-th largest of v[0..n) (k from 1); v is reordered. Hoare's selection, median of three. */
static float kth_largest(float *v, int n, int k)
{
    int lo = 0, hi = n - 1, want = k - 1;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        float a = v[lo], b = v[mid], c = v[hi];
        float pivot = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
        int i = lo, j = hi;
        while (i <= j) {
            while (v[i] > pivot)
                i++;
            while (v[j] < pivot)
                j--;
            if (i <= j) {
                float t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (want <= j)
            hi = j;
        else if (want >= i)
            lo = i;
        else
            break;
    }
    return v[want];
}

/* Let v[root] sink to its place in the heap v[0..n), the largest on top. */
static void sink(float *v, int root, int n)
{
    float x = v[root];
    for (int child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && v[child + 1] > v[child])
            child++;
        if (v[child] <= x)
            break;
        v[root] = v[child];
    }
    v[root] = x;
}

/* Heapsort: the C library's qsort asks for memory. */
static void sort_ascending(float *v, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sink(v, i, n);
    for (int end = n - 1; end > 0; end--) {
        float top = v[0];
        v[0] = v[end];
        v[end] = top;
        sink(v, 0, end);
    }
}

/* Keep the smallest set of largest logits whose probability reaches top_p; at least one. */
static void apply_top_p(et_sampler *s, int vocab, float top_p)
{
    int n = 0;
    for (int i = 0; i < vocab; i++)
        if (s->work[i] > -INFINITY)
            s->sorted[n++] = s->work[i];
    if (n < 2)
        return;
    /* n is at most top_k plus ties in practice, so sorting is cheap. */
    sort_ascending(s->sorted, n);
    double max = s->sorted[n - 1], total = 0, sum = 0;
    for (int i = 0; i < n; i++)
        total += exp(s->sorted[i] - max);
    int cut = 0;
    for (; cut < n - 1; cut++) {
        sum += exp(s->sorted[cut] - max) / total;
        if (sum > 1.0 - (double)top_p)
            break;
    }
    float least = s->sorted[cut];
    for (int i = 0; i < vocab; i++)
        if (s->work[i] < least)
            s->work[i] = -INFINITY;
}

static int prepare(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c)
{
    float *w = s->work;
    memcpy(w, logits, (size_t)vocab * sizeof *w);
    if (p->repetition_penalty != 1.0f)
        for (int i = 0; i < vocab; i++)
            if (s->seen[i])
                w[i] = w[i] < 0 ? w[i] * p->repetition_penalty : w[i] / p->repetition_penalty;
    if (c->ban_eos && c->eos >= 0 && c->eos < vocab)
        w[c->eos] = -INFINITY;
    if (c->banned)
        for (int i = 0; i < vocab; i++)
            if (c->banned[i])
                w[i] = -INFINITY;
    int best = 0;
    for (int i = 0; i < vocab; i++) {
        if (isnan(w[i]))
            w[i] = -INFINITY;
        if (w[i] > w[best])
            best = i;
    }
    return best;
}

void et_sampler_process(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c)
{
    float *w = s->work;
    int best = prepare(s, logits, vocab, p, c);
    /* Greedy, too, where the quotient overflows, because differences of infinities are no numbers. */
    if (!p->do_sample || !isfinite(w[best] / p->temperature)) {
        memset(w, 0, (size_t)vocab * sizeof *w);
        w[best] = 1.0f;
        return;
    }
    if (p->temperature != 1.0f)
        for (int i = 0; i < vocab; i++)
            w[i] /= p->temperature;
    if (p->top_k > 0 && p->top_k < vocab) {
        memcpy(s->sorted, w, (size_t)vocab * sizeof *w);
        float least = kth_largest(s->sorted, vocab, p->top_k);
        for (int i = 0; i < vocab; i++)
            if (w[i] < least)
                w[i] = -INFINITY;
    }
    if (p->top_p < 1.0f)
        apply_top_p(s, vocab, p->top_p);
    float max = w[best];
    double total = 0;
    for (int i = 0; i < vocab; i++) {
        w[i] = w[i] > -INFINITY ? expf(w[i] - max) : 0.0f;
        total += w[i];
    }
    float scale = (float)(1.0 / total);
    for (int i = 0; i < vocab; i++)
        w[i] *= scale;
}

int et_sampler_draw(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c)
{
    if (!p->do_sample)
        return prepare(s, logits, vocab, p, c);
    et_sampler_process(s, logits, vocab, p, c);
    /* The sum is taken again: rounding must not leave a sliver past the last id. */
    double total = 0, sum = 0;
    int last = 0;
    for (int i = 0; i < vocab; i++)
        total += s->work[i];
    double u = uniform(s) * total;
    for (int i = 0; i < vocab; i++) {
        if (s->work[i] <= 0)
            continue;
        last = i;
        sum += s->work[i];
        if (u < sum)
            return i;
    }
    return last;
}
