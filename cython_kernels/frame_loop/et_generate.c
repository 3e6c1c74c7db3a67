/* See et_generate.h. All families have this in common: the frame's codes follow from the talker's last hidden state and
 * logits, and the talker's next input is the sum of the codes' rows and of the text row whose turn it is. */
#include "et_generate.h"

#include <stdlib.h>
#include <string.h>

enum { PREFILL_ROWS = 32 };

/* IEEE half to float for finite values: move exponent and mantissa, then rescale, which also normalises. */
static inline float half_to_float(uint16_t h)
{
    union { uint32_t u; float f; } v = {.u = (uint32_t)(h & 0x7fff) << 13}, s = {.u = (uint32_t)(h & 0x8000) << 16};
    v.f *= 0x1.0p112f;
    v.u |= s.u;
    return v.f;
}

void et_table_copy(const et_table *t, int row, float *out)
{
    if (t->f16) {
        const uint16_t *src = (const uint16_t *)t->data + (size_t)row * t->dim;
        for (int i = 0; i < t->dim; i++)
            out[i] = half_to_float(src[i]);
    } else {
        memcpy(out, (const float *)t->data + (size_t)row * t->dim, (size_t)t->dim * sizeof *out);
    }
}

void et_table_add(const et_table *t, int row, float *out)
{
    if (t->f16) {
        const uint16_t *src = (const uint16_t *)t->data + (size_t)row * t->dim;
        for (int i = 0; i < t->dim; i++)
            out[i] += half_to_float(src[i]);
    } else {
        const float *src = (const float *)t->data + (size_t)row * t->dim;
        for (int i = 0; i < t->dim; i++)
            out[i] += src[i];
    }
}

int et_generator_init(et_generator *g, et_pipe *pipe, et_talker *talker, et_predictor *predictor,
                      const et_table *tables, const et_plan *plan, const float *constant)
{
    const int groups = pipe->config.groups, hidden = talker->hidden;
    et_plan_needs needs;
    memset(g, 0, sizeof *g);
    int err = et_plan_check(plan, groups, talker->vocab, predictor ? predictor->vocab : 0, &needs);
    if (err || (needs.constant && !constant) || (needs.local && predictor->steps != needs.local) ||
        (needs.local && predictor->input_hidden != hidden))
        return ET_E_ARG;
    int vocab[ET_PLAN_STEPS] = {0};
    for (int i = 0; i < plan->n; i++) {
        const et_plan_step *s = &plan->steps[i];
        if (s->kind == ET_PLAN_CODE && (tables[s->codebook].dim != hidden || tables[s->codebook].rows < s->vocab))
            return ET_E_ARG;
        vocab[s->sampler] = s->vocab > vocab[s->sampler] ? s->vocab : vocab[s->sampler];
    }
    g->pipe = pipe;
    g->talker = talker;
    g->predictor = predictor;
    g->plan = *plan;
    g->step_ns = talker->warm_ns;
    memcpy(g->tables, tables, (size_t)groups * sizeof *tables);
    g->row = calloc((size_t)hidden, sizeof *g->row);
    g->part = calloc((size_t)hidden, sizeof *g->part);
    g->constant = needs.constant ? calloc((size_t)hidden, sizeof *g->constant) : NULL;
    err = g->row && g->part && (g->constant || !needs.constant) ? ET_OK : ET_E_MEMORY;
    if (g->constant)
        memcpy(g->constant, constant, (size_t)hidden * sizeof *constant);
    for (int i = 0; !err && i < needs.samplers; i++) {
        err = et_sampler_init(&g->samplers[i], vocab[i]);
        g->n_samplers += !err;
    }
    if (err)
        et_generator_free(g);
    return err;
}

void et_generator_free(et_generator *g)
{
    et_delay_close(&g->delay);
    free(g->row);
    free(g->part);
    free(g->constant);
    free(g->prefix);
    g->row = g->part = g->constant = g->prefix = NULL;
    g->n_prefix = 0;
    for (int i = 0; i < g->n_samplers; i++)
        et_sampler_free(&g->samplers[i]);
    g->n_samplers = 0;
}

static void end(et_result *r, int reason, int error)
{
    r->reason = reason;
    r->error = error;
}

/* The input row of a local step, NULL for none. g->part is the row of codebook `held`. */
static const float *input_row(et_generator *g, const et_plan_step *s, int held)
{
    if (s->row == ET_PLAN_NO_ROW)
        return NULL;
    if (s->row == ET_PLAN_CONSTANT)
        return g->constant;
    if (s->row != held)
        et_table_copy(&g->tables[s->row], g->frames.item.codes[s->row], g->part);
    return g->part;
}

/* Local step number k of the frame. */
static int ask(et_generator *g, const et_segment *seg, int k, const float *row, const float **logits, et_result *r,
               et_step *step)
{
    int err = et_frames_alive(g->pipe, seg->bounds.generation);
    if (err)
        return err;
    r->turn_ns += et_turn_enter(g->pipe);
    int64_t t0 = et_now_ns();
    err = k ? g->predictor->next(g->predictor, k, row, logits)
            : g->predictor->begin(g->predictor, g->talker->hidden_out(g->talker), row, logits);
    int64_t t1 = et_now_ns();
    et_turn_leave(g->pipe);
    r->predictor_ns += t1 - t0;
    r->substeps++;
    step->part_ns[ET_STEP_SUBSTEPS + k] = t1 - t0;
    return err;
}

/* The steps of one frame: its codes go into the item to be pushed, the sum of their rows into g->row. Where the segment
 * ends instead *reason says why. */
static int make_frame(et_generator *g, const et_segment *seg, et_result *r, et_step *step, int *reason)
{
    const int hidden = g->talker->hidden;
    et_frames *f = &g->frames;
    int local = 0, held = -1;
    for (int i = 0; i < g->plan.n; i++) {
        const et_plan_step *s = &g->plan.steps[i];
        const float *logits = NULL;
        if (s->source == ET_PLAN_LOCAL) {
            const float *row = input_row(g, s, held);
            held = s->row >= 0 ? s->row : held;
            int err = ask(g, seg, local++, row, &logits, r, step);
            if (err)
                return err;
        } else {
            logits = g->talker->logits(g->talker);
        }
        int64_t t0 = et_now_ns();
        const et_constraint c = {.banned = seg->banned[i], .eos = s->end,
                                 .ban_eos = seg->bounds.end_frames || f->frames < seg->min_frames};
        et_sampler *sampler = &g->samplers[s->sampler];
        int id = et_sampler_draw(sampler, logits, s->vocab, &seg->sampling[s->sampler], &c);
        et_sampler_accept(sampler, id);
        r->sample_ns += et_now_ns() - t0;
        if (id == s->end) {
            *reason = ET_COMPLETED;
            return ET_OK;
        }
        if (s->kind != ET_PLAN_CODE)
            continue;
        if (s->codebook == 0 && (*reason = et_frames_admit(f, id)))
            return ET_OK;
        f->item.codes[s->codebook] = (int16_t)id;
        et_table_copy(&g->tables[s->codebook], id, g->part);
        if (held < 0)
            memcpy(g->row, g->part, (size_t)hidden * sizeof *g->row);
        else
            for (int h = 0; h < hidden; h++)
                g->row[h] += g->part[h];
        held = s->codebook;
    }
    step->n = (uint16_t)local;
    return ET_OK;
}

/* A step's record is filled in any case, which costs next to nothing; it is kept only while tracing. */
static void keep(et_generator *g, const et_segment *seg, et_step *step, int kind)
{
    if (!et_pipe_tracing(g->pipe))
        return;
    step->generation = seg->bounds.generation;
    step->kind = (uint16_t)kind;
    step->wall_ns = et_now_ns() - step->t_ns;
    step->delay_ns = et_delay_take(&g->delay);
    et_pipe_keep_step(g->pipe, &g->pipe->generator_steps, step);
}

/* Rows are fed in pieces, because an abort must not wait for the whole of a long prompt. */
static int feed(et_generator *g, const et_segment *seg, int begin, int end_)
{
    int err = ET_OK;
    for (int at = begin; !err && at < end_; at += PREFILL_ROWS) {
        int n = end_ - at < PREFILL_ROWS ? end_ - at : PREFILL_ROWS;
        atomic_fetch_add_explicit(&g->pipe->generator_beat, 1, memory_order_relaxed);
        if ((err = et_frames_alive(g->pipe, seg->bounds.generation)))
            break;
        et_turn_enter(g->pipe);
        err = g->talker->feed(g->talker, seg->prompt + (size_t)at * g->talker->hidden, n);
        et_turn_leave(g->pipe);
    }
    return err;
}

/* Whether the talker holds this prompt's prefix and could go back to its end. */
static int resume(et_generator *g, const et_segment *seg)
{
    size_t bytes = (size_t)seg->n_prefix * g->talker->hidden * sizeof *g->prefix;
    return g->n_prefix == seg->n_prefix && memcmp(g->prefix, seg->prompt, bytes) == 0 &&
           g->talker->rewind(g->talker, seg->n_prefix) == ET_OK;
}

/* Prefix and rest are fed apart in any case: the same prompt gives the same bits whether it was held or not. */
static int prefill(et_generator *g, const et_segment *seg)
{
    int split = g->talker->rewind && seg->n_prefix > 0 && seg->n_prefix < seg->n_prompt ? seg->n_prefix : 0;
    if (!split || !resume(g, seg)) {
        g->n_prefix = 0;
        int err = g->talker->reset(g->talker);
        if (!err && split)
            err = feed(g, seg, 0, split);
        if (err)
            return err;
        size_t bytes = (size_t)split * g->talker->hidden * sizeof *g->prefix;
        float *copy = split ? realloc(g->prefix, bytes) : NULL;
        if (copy) {
            memcpy(copy, seg->prompt, bytes);
            g->prefix = copy;
            g->n_prefix = split;
        }
    }
    return feed(g, seg, split, seg->n_prompt);
}

/* Add the next text row to the sum of the frame's rows. */
static int add_text(et_generator *g, const et_segment *seg, et_result *r)
{
    const int64_t t0 = et_now_ns();
    const int got = seg->rows ? et_rows_next(seg->rows, seg->bounds.generation, g->part) : 0;
    if (got < 0)
        return got;
    r->text_ns += et_now_ns() - t0;
    const float *text = got ? g->part : seg->pad_row;
    for (int i = 0; i < g->talker->hidden; i++)
        g->row[i] += text[i];
    return ET_OK;
}

static int run(et_generator *g, const et_segment *seg, et_result *r, int16_t *codes, int max_codes)
{
    const int groups = g->pipe->config.groups;
    et_frames *f = &g->frames;
    int err = et_frames_begin(f, g->pipe, &seg->bounds);
    if (err)
        return err;
    for (int i = 0; i < g->n_samplers; i++)
        et_sampler_restart(&g->samplers[i], seg->seed, (uint64_t)g->n_samplers * seg->stream + (uint64_t)i);

    et_step step = {.n = (uint16_t)(seg->n_prompt < UINT16_MAX ? seg->n_prompt : UINT16_MAX)};
    if (et_pipe_tracing(g->pipe))
        et_delay_open(&g->delay);
    int64_t t0 = step.t_ns = et_now_ns();
    if ((err = prefill(g, seg)))
        return err;
    r->prefill_ns = et_now_ns() - t0;
    keep(g, seg, &step, ET_STEP_PREFILL);

    for (;;) {
        atomic_fetch_add_explicit(&g->pipe->generator_beat, 1, memory_order_relaxed);
        if ((err = et_frames_alive(g->pipe, seg->bounds.generation)))
            return err;
        step.t_ns = et_now_ns();
        int64_t sampled = r->sample_ns, predicted = r->predictor_ns;
        int reason = 0;
        if ((err = make_frame(g, seg, r, &step, &reason)))
            return err;
        if (reason) {
            end(r, reason, ET_OK);
            return ET_OK;
        }
        /* The step of the first frame was part of the prefill, so the cost of the step before stands for it. */
        int64_t work = g->step_ns + r->predictor_ns - predicted + r->sample_ns - sampled;
        int64_t waited = f->wait_ns;
        if ((err = et_frames_push(f, g->step_ns ? work : 0)))
            return err;
        step.part_ns[ET_STEP_WAIT] = f->wait_ns - waited;
        if (codes && f->frames <= max_codes)
            memcpy(codes + (size_t)(f->frames - 1) * groups, f->item.codes, (size_t)groups * sizeof *codes);

        if (f->frames == seg->bounds.end_frames) {
            /* The length is known: the talker need not look at the last frame. */
            step.part_ns[ET_STEP_TALKER] = 0;
            step.part_ns[ET_STEP_SAMPLE] = r->sample_ns - sampled;
            keep(g, seg, &step, ET_STEP_FRAME);
            end(r, ET_COMPLETED, ET_OK);
            return ET_OK;
        }
        if ((err = add_text(g, seg, r)) || (err = et_frames_alive(g->pipe, seg->bounds.generation)))
            return err;
        r->turn_ns += et_turn_enter(g->pipe);
        int64_t t1 = et_now_ns();
        err = g->talker->feed(g->talker, g->row, 1);
        et_turn_leave(g->pipe);
        if (err == ET_E_CONTEXT) {
            /* The talker has no position left: the segment ends as it does at max_frames. */
            end(r, ET_LIMIT, err);
            return ET_OK;
        }
        if (err)
            return err;
        step.part_ns[ET_STEP_TALKER] = g->step_ns = et_now_ns() - t1;
        step.part_ns[ET_STEP_SAMPLE] = r->sample_ns - sampled;
        r->talker_ns += step.part_ns[ET_STEP_TALKER];
        r->steps++;
        keep(g, seg, &step, ET_STEP_FRAME);
    }
}

void et_generate(et_generator *g, const et_segment *seg, et_result *r, int16_t *codes, int max_codes)
{
    memset(r, 0, sizeof *r);
    r->begin_ns = et_now_ns();
    int err = run(g, seg, r, codes, max_codes);
    if (!err)
        err = et_frames_end(&g->frames);
    if (err)
        end(r, et_frames_reason(err), err);
    r->frames = g->frames.frames;
    r->wait_ns = g->frames.wait_ns;
    r->first_frame_ns = g->frames.first_ns;
    r->wall_ns = et_now_ns() - r->begin_ns;
}
