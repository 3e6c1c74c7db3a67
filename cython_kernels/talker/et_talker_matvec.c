/* See et_talker_matvec.h. */
#include "et_talker_matvec.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/et_finite.h"
#include "et_talker_matvec_parts.h"
#include "et_talker_warm_up.h"
#include "weights/et_weight_file.h"

/* Nodes of a layer: its matrices and the attention. */
enum { NODES = ET_TALKER_PARTS + 1 };

static const int rows_of[ET_TALKER_SIZES] = {ET_TALKER_ROWS, 2, 1};

/* --- graphs -------------------------------------------------------------------------------------------- */

static void run_attention(struct ggml_tensor *dst, int ith, int nth, void *node)
{
    const et_attention_node *a = node;
    const struct ggml_tensor *qkv = dst->src[0];
    et_talker_attend(&a->attention, qkv->data, (int)(qkv->nb[1] / sizeof(float)), a->talker->n_past, (int)dst->ne[1],
                     dst->data, ith, nth);
}

static void build(et_matvec_talker *t, int size)
{
    const et_talker_shape *s = &t->shape;
    struct ggml_context *ctx = t->nodes;
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, s->hidden, rows_of[size]);
    x->data = t->rows;
    for (int i = 0; i < s->layers; i++) {
        et_matvec *m = t->matrices + i * ET_TALKER_PARTS;
        struct ggml_tensor *qkv = et_matvec_node(ctx, &m[0], x, NULL);
        struct ggml_tensor *mixed = ggml_custom_4d(ctx, GGML_TYPE_F32, (int64_t)s->heads * s->head_dim, rows_of[size],
                                                   1, 1, &qkv, 1, run_attention, GGML_N_TASKS_MAX, &t->attentions[i]);
        x = et_matvec_node(ctx, &m[1], mixed, x);
        x = et_matvec_node(ctx, &m[3], et_matvec_node(ctx, &m[2], x, NULL), x);
    }
    ggml_set_output(x);
    t->last[size] = ggml_view_1d(ctx, x, s->hidden, (size_t)(rows_of[size] - 1) * x->nb[1]);
    t->result[size] = et_matvec_node(ctx, &t->matrices[s->layers * ET_TALKER_PARTS], t->last[size], NULL);
    ggml_set_output(t->result[size]);
    t->graph[size] = ggml_new_graph_custom(ctx, (size_t)(s->layers * NODES + NODES), false);
    ggml_build_forward_expand(t->graph[size], t->result[size]);
}

static int build_all(et_matvec_talker *t, const et_talker_config *config, int threads)
{
    const size_t nodes = (size_t)(t->shape.layers * NODES + NODES);
    struct ggml_init_params params = {
        .mem_size = ET_TALKER_SIZES * (nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false)),
        .no_alloc = true,
    };
    t->nodes = ggml_init(params);
    int rc = t->nodes ? et_ggml_graphs_open(&t->graphs, t->cpu, threads) : ET_E_MEMORY;
    if (rc)
        return rc;
    for (int i = 0; i < ET_TALKER_SIZES; i++)
        build(t, i);
    rc = et_ggml_graphs_place(&t->graphs, t->graph, ET_TALKER_SIZES);
    for (int i = 0; rc == ET_OK && i < ET_TALKER_SIZES; i++) {
        t->cpu->set_n_threads(t->graphs.backend, rows_of[i] > 1 ? config->threads_batch : config->threads);
        t->plan[i] = ggml_backend_graph_plan_create(t->graphs.backend, t->graph[i]);
        rc = t->plan[i] ? ET_OK : ET_E_MEMORY;
    }
    return rc;
}

/* --- the C table --------------------------------------------------------------------------------------- */

static void place_rows(et_matvec_talker *t, const float *rows, int n)
{
    const int half = t->shape.head_dim / 2;
    memcpy(t->rows, rows, (size_t)n * (size_t)t->shape.hidden * sizeof *rows);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < half; j++) {
            float angle = (float)(t->base.n_past + i) * t->frequency[j];
            t->cosine[i * half + j] = cosf(angle);
            t->sine[i * half + j] = sinf(angle);
        }
    }
}

static void norm_hidden(et_matvec_talker *t, const float *x)
{
    const int n = t->shape.hidden;
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    const float scale = 1.0f / sqrtf((float)(sum / n) + t->shape.eps);
    for (int i = 0; i < n; i++)
        t->hidden[i] = x[i] * scale * t->output_norm[i];
}

static int feed(et_talker *base, const float *rows, int n)
{
    et_matvec_talker *t = base->self;
    const int start = base->n_past;
    if (n < 1)
        return ET_E_ARG;
    if (n > base->max_context - start)
        return ET_E_CONTEXT;
    if (!et_rows_finite(rows, n, base->hidden))
        return ET_E_BACKEND;
    for (int done = 0, size = 0; done < n; done += rows_of[size]) {
        while (rows_of[size] > n - done)
            size++;
        place_rows(t, rows + (size_t)done * base->hidden, rows_of[size]);
        if (ggml_backend_graph_plan_compute(t->graphs.backend, t->plan[size]) != GGML_STATUS_SUCCESS) {
            base->n_past = start;
            return ET_E_BACKEND;
        }
        base->n_past += rows_of[size];
        t->logits = t->result[size]->data;
        norm_hidden(t, t->last[size]->data);
    }
    if (!et_all_finite(t->hidden, base->hidden) || !et_all_finite(t->logits, base->vocab)) {
        base->n_past = start;
        return ET_E_BACKEND;
    }
    return ET_OK;
}

static int reset(et_talker *base)
{
    et_matvec_talker *t = base->self;
    et_empty_pages(t->cache, t->cache_bytes);
    base->n_past = 0;
    return ET_OK;
}

static int rewind_to(et_talker *base, int n)
{
    if (n < 0 || n > base->n_past)
        return ET_E_BACKEND;
    base->n_past = n;
    return ET_OK;
}

static const float *hidden_out(et_talker *base)
{
    return ((et_matvec_talker *)base->self)->hidden;
}

static const float *logits(et_talker *base)
{
    return ((et_matvec_talker *)base->self)->logits;
}

/* --- life ---------------------------------------------------------------------------------------------- */

static void free_all(et_talker *base)
{
    et_matvec_talker *t = base->self;
    for (int i = 0; i < ET_TALKER_SIZES; i++)
        if (t->plan[i])
            ggml_backend_graph_plan_free(t->graphs.backend, t->plan[i]);
    et_ggml_graphs_close(&t->graphs);
    if (t->nodes)
        ggml_free(t->nodes);
    if (base->file_bytes)
        et_weight_file_unmap(t->packed, t->packed_bytes);
    free(t->packed);
    free(t->cache);
    free(t->floats);
    free(t->attentions);
    free(t->matrices);
    free(t);
}

int et_talker_matvec_create(const et_talker_config *config, et_talker **out, char *err, size_t err_size)
{
    const int threads = config->threads > config->threads_batch ? config->threads : config->threads_batch;
    et_talker_shape shape;
    et_gguf g;
    *out = NULL;
    if (et_talker_check_file(config->path, &shape, err, err_size))
        return ET_E_ARG;
    const et_ggml_cpu *cpu = et_ggml_cpu_get(err, err_size);
    if (!cpu)
        return ET_E_BACKEND;
    if (et_gguf_open(&g, config->path, err, err_size))
        return ET_E_ARG;
    et_matvec_talker *t = calloc(1, sizeof *t);
    if (!t) {
        et_gguf_close(&g);
        snprintf(err, err_size, "out of memory");
        return ET_E_MEMORY;
    }
    t->shape = shape;
    t->cpu = cpu;
    t->base = (et_talker){
        .self = t,
        .hidden = shape.hidden,
        .vocab = shape.vocab,
        .max_context = config->max_context,
        .own_products = true,
        .reset = reset,
        .rewind = rewind_to,
        .feed = feed,
        .hidden_out = hidden_out,
        .logits = logits,
        .free = free_all,
    };
    bool found = false;
    int rc = et_talker_matvec_load(t, &g, threads, &found);
    et_gguf_close(&g);
    if (rc == ET_OK && found) {
        snprintf(err, err_size, "out of memory for the graphs");
        rc = build_all(t, config, threads);
    }
    if (rc == ET_OK && found && config->weight_file) {
        char name[PATH_MAX], problem[512];
        if (snprintf(name, sizeof name, "%s.rows", config->weight_file) < (int)sizeof name)
            t->base.file_bytes = et_weight_file_map(name, t->packed, t->packed_bytes, problem, sizeof problem);
    }
    if (rc == ET_OK && found) {
        snprintf(err, err_size, "the warm-up step failed (weights not finite?)");
        /* Every size of graph once. */
        rc = et_talker_warm_up(&t->base, 2 * rows_of[0] - 1);
    }
    if (rc || !found)
        free_all(&t->base);
    else
        *out = &t->base;
    return rc;
}
