#include "et_predictor_ggml.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/et_finite.h"
#include "base/et_log.h"
#include "et_predictor_parts.h"
#include "weights/et_weight_file.h"

/* Nodes of one layer and of what comes before and after the layers, rounded up. */
#define NODES_PER_LAYER 16
#define NODES_AROUND 16

/* --- graphs ------------------------------------------------------------------------------------------ */

static struct ggml_tensor *norm(et_predictor_model *m, struct ggml_tensor *x, struct ggml_tensor *weight)
{
    return ggml_mul(m->nodes, ggml_rms_norm(m->nodes, x, m->shape.eps), weight);
}

/* weight * norm(x) + add; gated: of the two halves of rows silu(first) * second. norm_weight and add may be NULL. Where
 * the weights lie in a layout of our own it is one node. */
static struct ggml_tensor *product(et_predictor_model *m, struct ggml_tensor *weight, struct ggml_tensor *x,
                                   struct ggml_tensor *norm_weight, struct ggml_tensor *add, bool gated)
{
    struct ggml_context *ctx = m->nodes;
    if (weight->buffer) {
        x = ggml_mul_mat(ctx, weight, norm_weight ? norm(m, x, norm_weight) : x);
        x = gated ? ggml_swiglu(ctx, x) : x;
        return add ? ggml_add(ctx, x, add) : x;
    }
    const et_matvec p = {.packed = weight->data, .rows = (int)weight->ne[1], .columns = (int)weight->ne[0],
                         .wide = weight->type == GGML_TYPE_Q8_0,
                         .norm = norm_weight ? norm_weight->data : NULL, .eps = m->shape.eps, .gated = gated};
    int i = 0;
    while (i < m->n_products && m->products[i].packed != p.packed)
        i++;
    if (i == m->n_products)
        m->products[m->n_products++] = p;
    return et_matvec_node(ctx, &m->products[i], x, add);
}

/* One layer over the columns of x. Of the last layer only the last position is of use: last_only. */
static struct ggml_tensor *layer(et_predictor_model *m, et_attention *attention, struct ggml_tensor *x, bool last_only)
{
    struct ggml_context *ctx = m->nodes;
    const et_predictor_layer *l = attention->layer;
    struct ggml_tensor *qkv = product(m, l->qkv, x, l->attn_norm, NULL, false);
    int64_t rows = last_only ? 1 : x->ne[1];
    struct ggml_tensor *mixed = ggml_custom_4d(ctx, GGML_TYPE_F32, (int64_t)m->shape.heads * m->shape.head_dim, rows,
                                               1, 1, &qkv, 1, et_predictor_attend, GGML_N_TASKS_MAX, attention);
    if (rows < x->ne[1])
        x = ggml_view_2d(ctx, x, x->ne[0], rows, x->nb[1], (size_t)(x->ne[1] - rows) * x->nb[1]);
    x = product(m, l->attn_output, mixed, NULL, x, false);
    struct ggml_tensor *inner = product(m, l->gate_up, x, l->ffn_norm, NULL, true);
    return product(m, l->ffn_down, inner, NULL, x, false);
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
        x = ggml_add(ctx, product(m, m->input_proj, x, NULL, NULL, false), m->input_bias);
    for (int i = 0; i < s->layers; i++) {
        et_attention *a = &m->attentions[(size_t)(group - 1) * s->layers + i];
        *a = (et_attention){.model = m, .layer = &m->layers[i], .first_position = group == 1 ? 0 : group};
        x = layer(m, a, x, i == s->layers - 1);
    }
    et_substep *step = &m->substeps[group];
    step->logits = product(m, m->heads[group], x, m->output_norm, NULL, false);
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
    if (!m->nodes || !m->attentions || et_ggml_graphs_open(&m->graphs, m->cpu, threads))
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

    struct ggml_cgraph *graphs[ET_MAX_GROUPS];
    for (int i = 0; i < (int)steps; i++)
        graphs[i] = m->substeps[i + 1].graph;
    int rc = et_ggml_graphs_place(&m->graphs, graphs, (int)steps);
    if (rc)
        return rc;
    for (int group = 1; group < s->groups; group++) {
        et_substep *step = &m->substeps[group];
        step->plan = ggml_backend_graph_plan_create(m->graphs.backend, step->graph);
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
    if (!et_rows_finite(m->input->data, group == 1 ? 2 : 1, m->shape.input_hidden))
        return ET_E_BACKEND;
    if (ggml_backend_graph_plan_compute(m->graphs.backend, step->plan) != GGML_STATUS_SUCCESS)
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
    if (!row0)
        return ET_E_ARG;
    float *input = m->input->data;
    memcpy(input, hidden, (size_t)base->input_hidden * sizeof *input);
    memcpy(input + base->input_hidden, row0, (size_t)base->input_hidden * sizeof *input);
    return run(m, 1, logits);
}

static int next(et_predictor *base, int group, const float *row, const float **logits)
{
    et_predictor_model *m = base->self;
    if (group < 1 || group > base->steps - 1 || group != m->next_group)
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
    for (int group = 1; rc == ET_OK && group < m->base.steps; group++)
        rc = next(&m->base, group, zeros, &logits);
    free(zeros);
    m->next_group = 0;
    return rc;
}

static int move_weights(et_predictor_model *m, int n, const char *path)
{
    char name[PATH_MAX], problem[512];
    for (int i = 0; i < n; i++) {
        if (snprintf(name, sizeof name, "%s.%d", path, i) >= (int)sizeof name)
            return ET_E_ARG;
        m->moved[i] = et_weight_file_map(name, ggml_backend_buffer_get_base(m->buffers[i]),
                                         ggml_backend_buffer_get_size(m->buffers[i]), problem, sizeof problem);
    }
    if (m->own && snprintf(name, sizeof name, "%s.%d", path, n) < (int)sizeof name)
        m->own_moved = et_weight_file_map(name, m->own, m->own_bytes, problem, sizeof problem);
    return ET_OK;
}

int et_ggml_predictor_create(const char *path, int threads, const char *weight_file, bool own_products,
                             et_predictor **out, char *err, size_t err_size)
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
        m->cpu = cpu, m->use_own = own_products;
    int rc = m ? et_predictor_load(m, &g) : ET_E_MEMORY;
    et_gguf_close(&g);
    if (!m) {
        snprintf(err, err_size, "out of memory");
        return rc;
    }
    m->base = (et_predictor){
        .self = m,
        .input_hidden = m->shape.input_hidden,
        .steps = m->shape.groups - 1,
        .vocab = m->shape.vocab,
        .begin = begin,
        .next = next,
    };
    const int n_weights = m->n_buffers;
    if (rc == ET_OK)
        rc = et_predictor_build(m, threads, err, err_size);
    if (rc == ET_OK && weight_file)
        rc = move_weights(m, n_weights, weight_file);
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
            ggml_backend_graph_plan_free(m->graphs.backend, m->substeps[group].plan);
    et_ggml_graphs_close(&m->graphs);
    for (int i = 0; i < m->n_buffers; i++) {
        if (m->moved[i])
            et_weight_file_unmap(ggml_backend_buffer_get_base(m->buffers[i]),
                                 ggml_backend_buffer_get_size(m->buffers[i]));
        ggml_backend_buffer_free(m->buffers[i]);
    }
    if (m->own_moved)
        et_weight_file_unmap(m->own, m->own_bytes);
    free(m->own);
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

size_t et_ggml_predictor_file_bytes(const et_predictor *base)
{
    const et_predictor_model *m = base->self;
    size_t total = m->own_moved;
    for (int i = 0; i < m->n_buffers; i++)
        total += m->moved[i];
    return total;
}
