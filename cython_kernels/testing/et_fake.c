#include "et_fake.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define YES 50.0f
#define NO -50.0f

static void count(_Atomic int64_t *counter, int64_t n)
{
    __atomic_fetch_add((int64_t *)counter, n, __ATOMIC_RELAXED);
}

static void spend(int64_t us)
{
    if (us <= 0)
        return;
    struct timespec left = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static void choose(float *logits, int vocab, int code)
{
    for (int i = 0; i < vocab; i++)
        logits[i] = NO;
    logits[code] = YES;
}

/* --- talker ------------------------------------------------------------------------------------------ */

static int talker_reset(et_talker *base)
{
    et_fake_talker *t = base->self;
    count(&t->counts.resets, 1);
    t->feeds = t->n_past = 0;
    return ET_OK;
}

static int code_of(const et_fake_talker *t, int k)
{
    if (k < t->n_script)
        return t->script[k];
    if (t->period > 0)
        return t->script[t->n_script - t->period + (k - t->n_script) % t->period];
    return (int)((31LL * k + 7) % t->codes);
}

static int talker_feed(et_talker *base, const float *rows, int n)
{
    et_fake_talker *t = base->self;
    (void)rows;
    if (n < 1)
        return ET_E_ARG;
    if (n > base->max_context - t->n_past)
        return ET_E_CONTEXT;
    count(&t->counts.calls, 1);
    spend(t->step_us);
    int k = t->feeds;
    if (k == t->fail_at)
        return ET_E_BACKEND;
    count(&t->counts.units, n);
    t->feeds++;
    t->n_past += n;
    bool end = t->eos_after >= 0 && k >= t->eos_after;
    choose(t->logits, base->vocab, end ? t->eos_id : code_of(t, k));
    for (int i = 0; i < base->hidden; i++)
        t->hidden[i] = (float)k;
    return ET_OK;
}

static const float *talker_hidden(et_talker *base)
{
    return ((et_fake_talker *)base->self)->hidden;
}

static const float *talker_logits(et_talker *base)
{
    return ((et_fake_talker *)base->self)->logits;
}

int et_fake_talker_init(et_fake_talker *t, int hidden, int vocab, int max_context)
{
    memset(t, 0, sizeof *t);
    t->base = (et_talker){
        .self = t,
        .hidden = hidden,
        .vocab = vocab,
        .max_context = max_context,
        .reset = talker_reset,
        .feed = talker_feed,
        .hidden_out = talker_hidden,
        .logits = talker_logits,
    };
    t->hidden = calloc((size_t)hidden, sizeof *t->hidden);
    t->logits = calloc((size_t)vocab, sizeof *t->logits);
    return t->hidden && t->logits ? ET_OK : ET_E_MEMORY;
}

void et_fake_talker_free(et_fake_talker *t)
{
    free(t->hidden);
    free(t->logits);
    free(t->script);
}

/* --- code predictor ---------------------------------------------------------------------------------- */

static int predictor_step(et_fake_predictor *p, int step, const float **logits)
{
    const int group = p->decides ? step - 1 : step + 1;
    bool stop = p->stop_after >= 0 && p->frame >= p->stop_after;
    choose(p->logits, p->base.vocab, group < 0 ? stop : (int)((13LL * p->frame + 7 * group + 5) % p->base.vocab));
    p->next_step = step + 1;
    *logits = p->logits;
    return ET_OK;
}

static int predictor_begin(et_predictor *base, const float *hidden, const float *row, const float **logits)
{
    et_fake_predictor *p = base->self;
    count(&p->counts.calls, 1);
    spend(p->substep_us);
    p->next_step = 0;
    /* A decision is asked for with the hidden state alone. */
    if (!(hidden[0] >= 0 && hidden[0] < 1e9f) || p->decides != !row)
        return ET_E_ARG;
    p->frame = (int)lroundf(hidden[0]);
    if (p->frame == p->fail_at)
        return ET_E_BACKEND;
    count(&p->counts.units, 1);
    return predictor_step(p, 0, logits);
}

static int predictor_next(et_predictor *base, int step, const float *row, const float **logits)
{
    et_fake_predictor *p = base->self;
    if (step < 1 || step > base->steps - 1 || step != p->next_step || !row)
        return ET_E_ARG;
    count(&p->counts.calls, 1);
    spend(p->substep_us);
    return predictor_step(p, step, logits);
}

int et_fake_predictor_init(et_fake_predictor *p, int input_hidden, int steps, int vocab)
{
    memset(p, 0, sizeof *p);
    p->base = (et_predictor){
        .self = p,
        .input_hidden = input_hidden,
        .steps = steps,
        .vocab = vocab,
        .begin = predictor_begin,
        .next = predictor_next,
    };
    p->logits = calloc((size_t)vocab, sizeof *p->logits);
    return p->logits ? ET_OK : ET_E_MEMORY;
}

void et_fake_predictor_free(et_fake_predictor *p)
{
    free(p->logits);
}

/* --- decoder ----------------------------------------------------------------------------------------- */

static int decoder_reset(et_decoder *base)
{
    et_fake_decoder *d = base->self;
    count(&d->counts.resets, 1);
    d->frames = 0;
    return ET_OK;
}

static int decoder_decode(et_decoder *base, const int32_t *codes, int n, float *pcm)
{
    et_fake_decoder *d = base->self;
    bool known = false;
    for (int i = 0; i < base->n_sizes; i++)
        known |= base->sizes[i] == n;
    if (!known)
        return ET_E_ARG;
    for (int i = 0; i < n * base->groups; i++)
        if (codes[i] < 0 || codes[i] > INT16_MAX)
            return ET_E_ARG;
    count(&d->counts.calls, 1);
    spend((int64_t)d->frame_us * n);
    if (d->fail_at >= d->frames && d->fail_at < d->frames + n)
        return ET_E_BACKEND;
    for (int f = 0; f < n; f++) {
        int64_t start = 1031 * (d->frames + f) + (d->by_chunk ? 89 * n : 0), mix = 0;
        for (int g = 0; g < base->groups; g++)
            mix += (int64_t)codes[f * base->groups + g] * (2 * g + 1);
        start += 257 * mix;
        int64_t at = d->frames + f;
        int level = d->n_levels > 0 ? d->levels[at < d->n_levels ? at : d->n_levels - 1] : 0;
        for (int i = 0; i < base->samples_per_frame; i++)
            *pcm++ = ldexpf((float)((start + 97LL * i) % 32749 - 16374) / 32768.0f, -level);
    }
    d->frames += n;
    count(&d->counts.units, n);
    return ET_OK;
}

void et_fake_decoder_free(et_fake_decoder *d)
{
    free(d->levels);
}

void et_fake_decoder_init(et_fake_decoder *d, int groups, int samples_per_frame, const int *sizes, int n_sizes)
{
    memset(d, 0, sizeof *d);
    d->base = (et_decoder){
        .self = d,
        .groups = groups,
        .samples_per_frame = samples_per_frame,
        .n_sizes = n_sizes,
        .reset = decoder_reset,
        .decode = decoder_decode,
    };
    memcpy(d->base.sizes, sizes, (size_t)n_sizes * sizeof *sizes);
}
