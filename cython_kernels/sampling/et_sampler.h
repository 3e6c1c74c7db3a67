/* Sampling of one token, in the order of the official generate(): repetition penalty, minimum length,
 * suppressed ids, temperature, top-k, top-p, softmax, draw. Source of the order: the logits processors of
 * Hugging Face transformers 4.57. */
#ifndef ET_SAMPLER_H
#define ET_SAMPLER_H

#include "base/et_types.h"

typedef struct {
    int do_sample;            /* 0: the largest logit after penalty, minimum length and suppression */
    float temperature;        /* > 0; greedy where the largest logit over it overflows */
    int top_k;                /* 0: off; ties with the k-th logit stay */
    float top_p;              /* 1: off */
    float repetition_penalty; /* 1: off; each id that was generated counts once */
} et_sampling;

typedef struct {
    int vocab;
    float *work;              /* [vocab] processed logits, then weights */
    float *sorted;            /* [vocab] */
    uint8_t *seen;            /* [vocab] ids generated in this segment */
    uint64_t rng[4];          /* xoshiro256** (Blackman, Vigna 2018) */
} et_sampler;

int et_sampler_init(et_sampler *s, int vocab);
void et_sampler_free(et_sampler *s);
/* Forget the history and start the random stream that (seed, stream) names. */
void et_sampler_restart(et_sampler *s, uint64_t seed, uint64_t stream);

typedef struct {
    const uint8_t *banned;        /* [vocab] ids that are never drawn; NULL: none */
    int eos;                      /* -1: none */
    int ban_eos;                  /* minimum length not reached yet */
} et_constraint;

/* Processed probabilities in s->work [vocab] (one-hot when greedy); ids with probability 0 are out. */
void et_sampler_process(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c);
/* process + draw; the id is not added to the history. */
int et_sampler_draw(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c);
static inline void et_sampler_accept(et_sampler *s, int id) { s->seen[id] = 1; }

#endif
