#include "et_predictor_ggml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "et_finite.h"
#include "et_log.h"
#include "et_predictor_parts.h"

/* Nodes of one layer and of what comes before and after the layers, rounded up. */
#define NODES_PER_LAYER 16
#define NODES_AROUND 16

/* --- graphs ------------------------------------------------------------------------------------------ */

static struct ggml_tensor *norm(et_predictor_model *m, struct ggml_tensor *x, struct ggml_tensor *weight)
{
    return ggml_mul(m->nodes, ggml_rms_norm(m->nodes, x, m->shape.eps), weight);
}

/* One layer over the columns of x. Of the last layer only the last position is of use: last_only. */
static struct ggml_tensor *layer(et_predictor_model *m, et_attention *attention, struct ggml_tensor *x, bool last_only)
{
    struct ggml_context *ctx = m->nodes;
    const et_predictor_layer *l = attention->layer;
    struct ggml_tensor *qkv = ggml_mul_mat(ctx, l->qkv, norm(m, x, l->attn_norm));
    int64_t rows = last_only ? 1 : x->ne[1];
    struct ggml_tensor *mixed = ggml_custom_4d(ctx, GGML_TYPE_F32, (int64_t)m->shape.heads * m->shape.head_dim, rows,
                                               1, 1, &qkv, 1, et_predictor_attend, GGML_N_TASKS_MAX, attention);
    if (rows < x->ne[1])
        x = ggml_view_2d(ctx, x, x->ne[0], rows, x->nb[1], (size_t)(x->ne[1] - rows) * x->nb[1]);
    x = ggml_add(ctx, ggml_mul_mat(ctx, l->attn_output, mixed), x);
    struct ggml_tensor *both = ggml_mul_mat(ctx, l->gate_up, norm(m, x, l->ffn_norm));
    return ggml_add(ctx, ggml_mul_mat(ctx, l->ffn_down, ggml_swiglu(ctx, both)), x);
}

/* Graph of the sub-step that gives the logits of codebook `group`: positions 0 and 1 for codebook 1, then the
 * position of the same number. */
static void build_substep(et_predictor_model *m, int group)
{
    struct ggml_context *ctx = m->nodes;
    const et_predictor_shape *s = &m->shape;
    int rows = group == 1 ? 2 : 1;
    struct ggml_tensor *x = ggml_view_2d(ctx, m->input, s->input_hidden, rows, m->input->nb[1], 0);
    if (m->input_proj)
        x = ggml_add(ctx, ggml_mul_mat(ctx, m->input_proj, x), m->input_bias);
    for (int i = 0; i < s->layers; i++) {
        et_attention *a = &m->attentions[(size_t)(group - 1) * s->layers + i];
        *a = (et_attention){.model = m, .layer = &m->layers[i], .first_position = group == 1 ? 0 : group};
        x = layer(m, a, x, i == s->layers - 1);
    }
    et_substep *step = &m->substeps[group];
    step->logits = ggml_mul_mat(ctx, m->heads[group], norm(m, x, m->output_norm));
    ggml_set_output(step->logits);
    step->graph = ggml_new_graph_custom(ctx, (size_t)(s->layers * NODES_PER_LAYER + NODES_AROUND), false);
    ggml_build_forward_expand(step->graph, step->logits);
}

int et_predictor_build(et_predictor_model *m, int threads, char *err, size_t err_size)
{
    const et_predictor_shape *s = &m->shape;
    size_t nodes = (size_t)(s->layers * NODES_PER_LAYER + NODES_AROUND), steps = (size_t)s->groups - 1;
    struct ggml_init_params params = {
        .mem_size = steps * (nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false))
            + ggml_tensor_overhead(),
        .no_alloc = true,
    };
    snprintf(err, err_size, "out of memory for the graphs");
    m->nodes = ggml_init(params);
    m->attentions = calloc(steps * (size_t)s->layers, sizeof *m->attentions);
    m->allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type());
    if (!m->nodes || !m->attentions || !m->allocator)
        return ET_E_MEMORY;

    m->input = ggml_new_tensor_2d(m->nodes, GGML_TYPE_F32, s->input_hidden, 2);
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(),
                                                                  ggml_nbytes(m->input));
    if (!buffer)
        return ET_E_MEMORY;
    m->buffers[m->n_buffers++] = buffer;
    ggml_backend_tensor_alloc(buffer, m->input, ggml_backend_buffer_get_base(buffer));
    for (int group = 1; group < s->groups; group++)
        build_substep(m, group);

    /* Sub-steps run one after the other, so they share one block of memory. Grow it for all of them first:
     * a block that grows later would move under the graphs that already have their addresses. */
    for (int group = 1; group < s->groups; group++)
        if (!ggml_gallocr_reserve(m->allocator, m->substeps[group].graph))
            return ET_E_MEMORY;
    size_t size = ggml_gallocr_get_buffer_size(m->allocator, 0);
    for (int group = 1; group < s->groups; group++)
        if (!ggml_gallocr_alloc_graph(m->allocator, m->substeps[group].graph))
            return ET_E_MEMORY;
    if (ggml_gallocr_get_buffer_size(m->allocator, 0) != size) {
        snprintf(err, err_size, "the graphs' memory moved while it was handed out");
        return ET_E_BACKEND;
    }

    struct ggml_threadpool_params pool = ggml_threadpool_params_default(threads);
    pool.poll = 0;  /* idle workers sleep: the talker computes between two frames */
    m->pool = m->cpu->threadpool_new(&pool);
    m->backend = ggml_backend_dev_init(m->cpu->device, NULL);
    if (!m->pool || !m->backend)
        return ET_E_MEMORY;
    m->cpu->set_n_threads(m->backend, threads);
    m->cpu->set_threadpool(m->backend, m->pool);
    for (int group = 1; group < s->groups; group++) {
        et_substep *step = &m->substeps[group];
        step->plan = ggml_backend_graph_plan_create(m->backend, step->graph);
        if (!step->plan)
            return ET_E_MEMORY;
    }
    err[0] = '\0';
    return ET_OK;
}

/* --- the C table ------------------------------------------------------------------------------------- */

static int run(et_predictor_model *m, int group, const float **logits)
{
    et_substep *step = &m->substeps[group];
    m->next_group = 0;
    if (ggml_backend_graph_plan_compute(m->backend, step->plan) != GGML_STATUS_SUCCESS)
        return ET_E_BACKEND;
    if (!et_all_finite(step->logits->data, m->shape.vocab))
        return ET_E_BACKEND;
    m->next_group = group;
    *logits = step->logits->data;
    return ET_OK;
}

static int begin(et_predictor *base, const float *hidden, const float *row0, const float **logits)
{
    et_predictor_model *m = base->self;
    float *input = m->input->data;
    memcpy(input, hidden, (size_t)base->input_hidden * sizeof *input);
    memcpy(input + base->input_hidden, row0, (size_t)base->input_hidden * sizeof *input);
    return run(m, 1, logits);
}

static int next(et_predictor *base, int group, const float *row, const float **logits)
{
    et_predictor_model *m = base->self;
    if (group < 1 || group > base->groups - 2 || group != m->next_group)
        return ET_E_ARG;
    memcpy(m->input->data, row, (size_t)base->input_hidden * sizeof *row);
    return run(m, group + 1, logits);
}

/* --- life -------------------------------------------------------------------------------------------- */

static int warm_up(et_predictor_model *m)
{
    float *zeros = calloc((size_t)m->base.input_hidden, sizeof *zeros);
    const float *logits;
    if (!zeros)
        return ET_E_MEMORY;
    int rc = begin(&m->base, zeros, zeros, &logits);
    for (int group = 1; rc == ET_OK && group < m->base.groups - 1; group++)
        rc = next(&m->base, group, zeros, &logits);
    free(zeros);
    m->next_group = 0;
    return rc;
}

int et_ggml_predictor_create(const char *path, int threads, et_predictor **out, char *err, size_t err_size)
{
    et_gguf g;
    *out = NULL;
    const et_ggml_cpu *cpu = et_ggml_cpu_get(err, err_size);
    if (!cpu)
        return ET_E_BACKEND;
    if (et_gguf_open(&g, path, err, err_size))
        return ET_E_ARG;
    et_predictor_model *m = calloc(1, sizeof *m);
    if (m)
        m->cpu = cpu;
    int rc = m ? et_predictor_load(m, &g) : ET_E_MEMORY;
    et_gguf_close(&g);
    if (!m) {
        snprintf(err, err_size, "out of memory");
        return rc;
    }
    m->base = (et_predictor){
        .self = m,
        .input_hidden = m->shape.input_hidden,
        .groups = m->shape.groups,
        .vocab = m->shape.vocab,
        .begin = begin,
        .next = next,
    };
    if (rc == ET_OK)
        rc = et_predictor_build(m, threads, err, err_size);
    if (rc == ET_OK) {
        rc = warm_up(m);
        if (rc)
            et_log_describe(err, err_size, "the warm-up frame failed (weights not finite?)");
    }
    if (rc) {
        et_ggml_predictor_free(&m->base);
        return rc;
    }
    *out = &m->base;
    return ET_OK;
}

void et_ggml_predictor_free(et_predictor *base)
{
    if (!base)
        return;
    et_predictor_model *m = base->self;
    for (int group = 1; group < ET_MAX_GROUPS; group++)
        if (m->substeps[group].plan)
            ggml_backend_graph_plan_free(m->backend, m->substeps[group].plan);
    if (m->backend)
        ggml_backend_free(m->backend);
    if (m->pool)
        m->cpu->threadpool_free(m->pool);
    if (m->allocator)
        ggml_gallocr_free(m->allocator);
    for (int i = 0; i < m->n_buffers; i++)
        ggml_backend_buffer_free(m->buffers[i]);
    if (m->nodes)
        ggml_free(m->nodes);
    if (m->tensors)
        ggml_free(m->tensors);
    free(m->attentions);
    free(m->floats);
    free(m);
}

static const et_predictor_model *model_of(const et_predictor *base)
{
    return base->self;
}

int et_ggml_predictor_hidden(const et_predictor *base)
{
    return model_of(base)->shape.hidden;
}

int et_ggml_predictor_layers(const et_predictor *base)
{
    return model_of(base)->shape.layers;
}

size_t et_ggml_predictor_weight_bytes(const et_predictor *base)
{
    return model_of(base)->weight_bytes;
}

size_t et_ggml_predictor_repacked_bytes(const et_predictor *base)
{
    return model_of(base)->repacked_bytes;
}
