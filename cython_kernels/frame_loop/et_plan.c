/* See et_plan.h. */
#include "et_plan.h"

#include <stdbool.h>
#include <string.h>

static bool row_is_there(const et_plan_step *s, int groups, const bool *filled, int local)
{
    if (s->row == ET_PLAN_CONSTANT)
        return true;
    /* Only the first local step has an input, the hidden state, without a row. */
    if (s->row == ET_PLAN_NO_ROW)
        return local == 0;
    return s->row >= 0 && s->row < groups && filled[s->row];
}

int et_plan_check(const et_plan *plan, int groups, int talker_vocab, int local_vocab, et_plan_needs *needs)
{
    bool filled[ET_MAX_GROUPS] = {false}, used[ET_PLAN_STEPS] = {false};
    memset(needs, 0, sizeof *needs);
    if (plan->n < 1 || plan->n > ET_PLAN_STEPS || groups < 1 || groups > ET_MAX_GROUPS)
        return ET_E_ARG;
    for (int i = 0; i < plan->n; i++) {
        const et_plan_step *s = &plan->steps[i];
        const bool local = s->source == ET_PLAN_LOCAL;
        if ((!local && s->source != ET_PLAN_TALKER) || s->vocab < 1 || s->vocab > (local ? local_vocab : talker_vocab))
            return ET_E_ARG;
        if (s->sampler < 0 || s->sampler >= ET_PLAN_STEPS || s->end < -1 || s->end >= s->vocab || (i && s->end >= 0))
            return ET_E_ARG;
        if (local && !row_is_there(s, groups, filled, needs->local))
            return ET_E_ARG;
        if (s->kind == ET_PLAN_CODE) {
            if (s->codebook < 0 || s->codebook >= groups || filled[s->codebook] || s->vocab > ET_MAX_VOCAB)
                return ET_E_ARG;
            filled[s->codebook] = true;
        } else if (s->kind != ET_PLAN_STOP || s->end < 0) {
            return ET_E_ARG;
        }
        used[s->sampler] = true;
        needs->samplers = s->sampler >= needs->samplers ? s->sampler + 1 : needs->samplers;
        needs->local += local;
        needs->constant |= local && s->row == ET_PLAN_CONSTANT;
    }
    for (int i = 0; i < groups; i++)
        if (!filled[i])
            return ET_E_ARG;
    for (int i = 0; i < needs->samplers; i++)
        if (!used[i])
            return ET_E_ARG;
    return needs->local <= ET_MAX_GROUPS ? ET_OK : ET_E_ARG;
}
