/* See et_generate.h. Source of the loop: Qwen3TTSTalkerForConditionalGeneration.forward of qwen-tts 0.1.1:
 * the frame's codes are predicted from the hidden state that gave codebook 0, the next input is the sum of
 * the frame's 16 rows and of the text row whose turn it is. */
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
                      const et_table *tables, int groups)
{
    memset(g, 0, sizeof *g);
    if (groups < 2 || groups > ET_MAX_GROUPS || groups != predictor->groups || groups != pipe->config.groups ||
        predictor->input_hidden != talker->hidden || talker->vocab > ET_MAX_VOCAB || predictor->vocab > ET_MAX_VOCAB)
        return ET_E_ARG;
    for (int i = 0; i < groups; i++)
        if (tables[i].dim != talker->hidden || tables[i].rows < (i ? predictor->vocab : talker->vocab))
            return ET_E_ARG;
    g->pipe = pipe;
    g->talker = talker;
    g->predictor = predictor;
    g->step_ns = talker->warm_ns;
    memcpy(g->tables, tables, (size_t)groups * sizeof *tables);
    g->row = calloc((size_t)talker->hidden, sizeof *g->row);
    g->part = calloc((size_t)talker->hidden, sizeof *g->part);
    int err = g->row && g->part ? ET_OK : ET_E_MEMORY;
    if (!err)
        err = et_sampler_init(&g->c0, talker->vocab);
    if (!err)
        err = et_sampler_init(&g->fine, predictor->vocab);
    if (err)
        et_generator_free(g);
    return err;
}

void et_generator_free(et_generator *g)
{
    et_delay_close(&g->delay);
    free(g->row);
    free(g->part);
    free(g->prefix);
    g->row = g->part = g->prefix = NULL;
    g->n_prefix = 0;
    et_sampler_free(&g->c0);
    et_sampler_free(&g->fine);
}

static void end(et_result *r, int reason, int error)
{
    r->reason = reason;
    r->error = error;
}

/* Codebooks 1.. of the frame whose codes[0] is known; g->row becomes the sum of the frame's rows. */
static int predict_frame(et_generator *g, const et_segment *seg, int16_t *codes, et_result *r, et_step *step)
{
    const int groups = g->predictor->groups;
    const et_constraint free_draw = {.eos = -1};
    const float *logits = NULL;
    et_table_copy(&g->tables[0], codes[0], g->row);
    for (int k = 1; k < groups; k++) {
        int err = et_frames_alive(g->pipe, seg->bounds.generation);
        if (err)
            return err;
        r->turn_ns += et_turn_enter(g->pipe);
        int64_t t0 = et_now_ns();
        if (k == 1) {
            err = g->predictor->begin(g->predictor, g->talker->hidden_out(g->talker), g->row, &logits);
        } else {
            et_table_copy(&g->tables[k - 1], codes[k - 1], g->part);
            for (int i = 0; i < g->talker->hidden; i++)
                g->row[i] += g->part[i];
            err = g->predictor->next(g->predictor, k - 1, g->part, &logits);
        }
        int64_t t1 = et_now_ns();
        et_turn_leave(g->pipe);
        if (err)
            return err;
        codes[k] = (int16_t)et_sampler_draw(&g->fine, logits, g->predictor->vocab, &seg->fine, &free_draw);
        r->predictor_ns += t1 - t0;
        r->sample_ns += et_now_ns() - t1;
        r->substeps++;
        step->part_ns[ET_STEP_SUBSTEPS + k - 1] = t1 - t0;
    }
    step->n = (uint16_t)(groups - 1);
    et_table_add(&g->tables[groups - 1], codes[groups - 1], g->row);
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

/* In pieces, so that an abort does not wait for the whole of a long prompt. */
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

/* The text row whose turn it is, to the sum of the frame's rows. */
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
    const int groups = g->predictor->groups;
    et_frames *f = &g->frames;
    int err = et_frames_begin(f, g->pipe, &seg->bounds);
    if (err)
        return err;
    et_sampler_restart(&g->c0, seg->seed, 2 * seg->stream);
    et_sampler_restart(&g->fine, seg->seed, 2 * seg->stream + 1);

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
        et_constraint c = {.banned = seg->banned, .eos = seg->eos,
                           .ban_eos = seg->bounds.end_frames || f->frames < seg->min_frames};
        t0 = step.t_ns = et_now_ns();
        int64_t sampled = r->sample_ns, predicted = r->predictor_ns;
        int c0 = et_sampler_draw(&g->c0, g->talker->logits(g->talker), g->talker->vocab, &seg->c0, &c);
        et_sampler_accept(&g->c0, c0);
        r->sample_ns += et_now_ns() - t0;
        if (c0 == seg->eos) {
            end(r, ET_COMPLETED, ET_OK);
            return ET_OK;
        }
        int reason = et_frames_admit(f, c0);
        if (reason) {
            end(r, reason, ET_OK);
            return ET_OK;
        }
        f->item.codes[0] = (int16_t)c0;
        if ((err = predict_frame(g, seg, f->item.codes, r, &step)))
            return err;
        /* The step of the first frame was part of the prefill: it counts like the last one before. */
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
            /* The model has no position left: the same end as reaching max_frames. */
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
