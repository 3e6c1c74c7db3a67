/* The frame plan: which steps make a frame of codes, as data. A step draws one id from the talker's logits or from
 * those of a local step (the code predictor, inside one frame); the id is a code, or decides whether there is another
 * frame at all. */
#ifndef ET_PLAN_H
#define ET_PLAN_H

#include "base/et_types.h"

#define ET_PLAN_STEPS (ET_MAX_GROUPS + 1)

enum et_plan_kind { ET_PLAN_CODE, ET_PLAN_STOP };
enum et_plan_source { ET_PLAN_TALKER, ET_PLAN_LOCAL };
enum { ET_PLAN_NO_ROW = -1, ET_PLAN_CONSTANT = -2 };

typedef struct {
    int kind, source;
    int codebook;  /* CODE: the codebook that it fills */
    int sampler;   /* which sampler draws: steps with the same one share its history and its random stream */
    int row;       /* LOCAL: what goes in before: the row of the code of this codebook, the constant row, or no row;
                      the first local step gets the talker's hidden state besides */
    int vocab;     /* logits that are looked at: the first so many */
    int end;       /* the id that ends the segment, -1: none */
} et_plan_step;

typedef struct {
    int n;
    et_plan_step steps[ET_PLAN_STEPS];
} et_plan;

/* What a plan needs: samplers (from 0), local steps, and whether the constant row. */
typedef struct {
    int samplers, local;
    int constant;
} et_plan_needs;

/* Whether the steps fill codebooks 0 to groups - 1 once each, from logits and rows that are there when they are
 * wanted, with the end in the first step if anywhere. local_vocab is 0 without a code predictor.
 * ET_OK with *needs filled in, or ET_E_ARG. */
int et_plan_check(const et_plan *plan, int groups, int talker_vocab, int local_vocab, et_plan_needs *needs);

#endif
