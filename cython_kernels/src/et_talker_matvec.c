/* See et_talker_matvec.h. */
#include "et_talker_matvec.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "et_finite.h"
#include "et_ggml_graphs.h"
#include "et_gguf.h"
#include "et_talker_attend.h"
#include "et_talker_file.h"
#include "et_weight_file.h"

enum {
    LANES = 16,             /* positions come in such blocks */
    HUGE_PAGE = 2 << 20,
    PARTS = 4,              /* matrices of a layer: queries with keys and values, output, gate with up, down */
    NODES = PARTS + 1,      /* of a layer, with the attention */
    SIZES = 3,              /* of graphs, by their rows */
};

static const int rows_of[SIZES] = {4, 2, 1};

typedef struct {
    et_talker_attention attention;
    const et_talker *talker;    /* knows the position */
} attention_node;

typedef struct {
    et_talker base;
    et_talker_shape shape;
    const et_ggml_cpu *cpu;
    void *packed;           /* all matrices */
    size_t packed_bytes;
    et_matvec *matrices;    /* [layers][PARTS], then the head's */
    attention_node *attentions;     /* [layers] */
    float *floats;          /* one block: what follows, and the norms */
    float *frequency;       /* [head_dim / 2] */
    float *cosine, *sine;   /* [most rows][head_dim / 2] */
    float *rows;            /* [most rows][hidden] */
    float *hidden;          /* [hidden] */
    float *scores;          /* [threads][2][context] */
    const float *output_norm, *logits;
    uint16_t *cache;        /* keys, then values, of each layer */
    size_t cache_bytes;
    struct ggml_context *nodes;
    et_ggml_graphs graphs;
    struct ggml_cgraph *graph[SIZES];
    struct ggml_tensor *last[SIZES], *result[SIZES];
    ggml_backend_graph_plan_t plan[SIZES];
} matvec_talker;

/* --- weights ------------------------------------------------------------------------------------------- */

/* A matrix of the model: up to three of the file on top of each other. */
typedef struct {
    char names[3][64];
    int rows[3], n, columns;
    bool gated;
} source;

static source source_of(const et_talker_shape *s, int index)
{
    static const char *const names[PARTS][3] = {
        {"attn_q", "attn_k", "attn_v"}, {"attn_output"}, {"ffn_gate", "ffn_up"}, {"ffn_down"}};
    const int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    if (index == s->layers * PARTS)
        return (source){.names = {"output.weight"}, .rows = {s->vocab}, .n = 1, .columns = s->hidden};
    source all[PARTS] = {
        {.rows = {q, kv, kv}, .n = 3, .columns = s->hidden},
        {.rows = {s->hidden}, .n = 1, .columns = q},
        {.rows = {s->ffn, s->ffn}, .n = 2, .columns = s->hidden, .gated = true},
        {.rows = {s->hidden}, .n = 1, .columns = s->ffn},
    };
    source *x = &all[index % PARTS];
    for (int i = 0; i < x->n; i++)
        snprintf(x->names[i], sizeof x->names[i], "blk.%d.%s.weight", index / PARTS, names[index % PARTS][i]);
    return *x;
}

/* Whether the matrix is one for et_matvec; adds the bytes that it takes to *bytes and the largest part's to *most. */
static bool fits(et_gguf *g, const source *x, et_matvec *m, size_t *bytes, size_t *most)
{
    enum ggml_type type = GGML_TYPE_COUNT;
    *m = (et_matvec){.columns = x->columns, .gated = x->gated};
    for (int i = 0; i < x->n; i++) {
        et_gguf_tensor t;
        if (et_gguf_find(g, x->names[i], x->rows[i], x->columns, &t) || (i && t.type != type)
            || (t.type != GGML_TYPE_Q4_0 && t.type != GGML_TYPE_Q8_0) || !et_matvec_usable(x->rows[i], x->columns))
            return false;
        type = t.type;
        m->wide = type == GGML_TYPE_Q8_0;
        m->rows += x->rows[i];
        *bytes += t.size;
        *most = t.size > *most ? t.size : *most;
    }
    return true;
}

static bool fits_all(et_gguf *g, matvec_talker *t, size_t *most)
{
    const et_talker_shape *s = &t->shape;
    et_gguf_tensor norm;
    for (int i = 0; i <= s->layers * PARTS; i++) {
        source x = source_of(s, i);
        if (!fits(g, &x, &t->matrices[i], &t->packed_bytes, most))
            return false;
    }
    return et_talker_attend_usable(s->head_dim) && !et_gguf_find(g, "output_norm.weight", 0, s->hidden, &norm)
        && norm.type == GGML_TYPE_F32;
}

/* A matrix's parts one after the other: 16 rows never belong to two of them. */
static int read_matrices(et_gguf *g, matvec_talker *t, uint8_t *part)
{
    uint8_t *at = t->packed;
    for (int i = 0; i <= t->shape.layers * PARTS; i++) {
        source x = source_of(&t->shape, i);
        t->matrices[i].packed = at;
        for (int j = 0; j < x.n; j++) {
            et_gguf_tensor tensor;
            if (et_gguf_find(g, x.names[j], x.rows[j], x.columns, &tensor) || et_gguf_read(g, &tensor, part))
                return ET_E_ARG;
            et_matvec_pack(part, x.rows[j], x.columns, t->matrices[i].wide, at);
            at += tensor.size;
        }
    }
    return ET_OK;
}

static int read_norm(et_gguf *g, const char *name, int n, float **at, const float **norm)
{
    et_gguf_tensor t;
    if (et_gguf_find(g, name, 0, n, &t))
        return ET_E_ARG;
    if (t.type != GGML_TYPE_F32) {
        et_gguf_fail(g, "tensor %s has type %s, expected f32", name, ggml_type_name(t.type));
        return ET_E_ARG;
    }
    if (et_gguf_read(g, &t, *at))
        return ET_E_ARG;
    *norm = *at;
    *at += n;
    return ET_OK;
}

static int read_norms(et_gguf *g, matvec_talker *t, float *at)
{
    const et_talker_shape *s = &t->shape;
    for (int i = 0; i < s->layers; i++) {
        et_talker_attention *a = &t->attentions[i].attention;
        const struct { const char *name; int n; const float **norm; } norms[] = {
            {"attn_norm", s->hidden, &t->matrices[i * PARTS].norm},
            {"attn_q_norm", s->head_dim, &a->q_norm},
            {"attn_k_norm", s->head_dim, &a->k_norm},
            {"ffn_norm", s->hidden, &t->matrices[i * PARTS + 2].norm},
        };
        for (size_t j = 0; j < sizeof norms / sizeof *norms; j++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, norms[j].name);
            if (read_norm(g, name, norms[j].n, &at, norms[j].norm))
                return ET_E_ARG;
        }
    }
    int rc = read_norm(g, "output_norm.weight", s->hidden, &at, &t->output_norm);
    t->matrices[s->layers * PARTS].norm = t->output_norm;
    return rc;
}

/* --- memory -------------------------------------------------------------------------------------------- */

static int take_memory(et_gguf *g, matvec_talker *t, int threads)
{
    const et_talker_shape *s = &t->shape;
    const size_t half = (size_t)s->head_dim / 2, most = (size_t)rows_of[0], hidden = (size_t)s->hidden;
    const size_t context = ((size_t)t->base.max_context + LANES - 1) / LANES * LANES;
    const size_t layer = (size_t)s->kv_heads * context * (size_t)s->head_dim;
    const size_t norms = (size_t)s->layers * 2 * (hidden + (size_t)s->head_dim) + hidden;
    t->cache_bytes = 2 * layer * (size_t)s->layers * sizeof *t->cache;
    t->cache = calloc(1, t->cache_bytes);
    t->floats = calloc(half * (1 + 2 * most) + hidden * (most + 1) + 2 * (size_t)threads * context + norms, sizeof(float));
    t->packed = aligned_alloc(HUGE_PAGE, (t->packed_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    if (!t->cache || !t->floats || !t->packed) {
        et_gguf_fail(g, "out of memory: %zu bytes of weights, %zu of keys and values", t->packed_bytes, t->cache_bytes);
        return ET_E_MEMORY;
    }
    float *at = t->floats;
    t->frequency = at, at += half;
    t->cosine = at, at += half * most;
    t->sine = at, at += half * most;
    t->rows = at, at += hidden * most;
    t->hidden = at, at += hidden;
    t->scores = at, at += 2 * (size_t)threads * context;
    for (size_t j = 0; j < half; j++)
        t->frequency[j] = 1.0f / powf(s->theta, (float)(2 * j) / (float)s->head_dim);
    for (int i = 0; i < s->layers; i++) {
        t->attentions[i] = (attention_node){.talker = &t->base, .attention = {
            .heads = s->heads, .kv_heads = s->kv_heads, .head_dim = s->head_dim, .context = (int)context,
            .eps = s->eps, .keys = t->cache + 2 * layer * (size_t)i, .values = t->cache + 2 * layer * (size_t)i + layer,
            .cosine = t->cosine, .sine = t->sine, .scores = t->scores}};
    }
    for (int i = 0; i <= s->layers * PARTS; i++)
        t->matrices[i].eps = s->eps;
    return read_norms(g, t, at);
}

/* --- graphs -------------------------------------------------------------------------------------------- */

static void run_attention(struct ggml_tensor *dst, int ith, int nth, void *node)
{
    const attention_node *a = node;
    const struct ggml_tensor *qkv = dst->src[0];
    et_talker_attend(&a->attention, qkv->data, (int)(qkv->nb[1] / sizeof(float)), a->talker->n_past, (int)dst->ne[1],
                     dst->data, ith, nth);
}

static void build(matvec_talker *t, int size)
{
    const et_talker_shape *s = &t->shape;
    struct ggml_context *ctx = t->nodes;
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, s->hidden, rows_of[size]);
    x->data = t->rows;
    for (int i = 0; i < s->layers; i++) {
        et_matvec *m = t->matrices + i * PARTS;
        struct ggml_tensor *qkv = et_matvec_node(ctx, &m[0], x, NULL);
        struct ggml_tensor *mixed = ggml_custom_4d(ctx, GGML_TYPE_F32, (int64_t)s->heads * s->head_dim, rows_of[size],
                                                   1, 1, &qkv, 1, run_attention, GGML_N_TASKS_MAX, &t->attentions[i]);
        x = et_matvec_node(ctx, &m[1], mixed, x);
        x = et_matvec_node(ctx, &m[3], et_matvec_node(ctx, &m[2], x, NULL), x);
    }
    ggml_set_output(x);
    t->last[size] = ggml_view_1d(ctx, x, s->hidden, (size_t)(rows_of[size] - 1) * x->nb[1]);
    t->result[size] = et_matvec_node(ctx, &t->matrices[s->layers * PARTS], t->last[size], NULL);
    ggml_set_output(t->result[size]);
    t->graph[size] = ggml_new_graph_custom(ctx, (size_t)(s->layers * NODES + NODES), false);
    ggml_build_forward_expand(t->graph[size], t->result[size]);
}

static int build_all(matvec_talker *t, const et_talker_config *config, int threads)
{
    const size_t nodes = (size_t)(t->shape.layers * NODES + NODES);
    struct ggml_init_params params = {
        .mem_size = SIZES * (nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(nodes, false)),
        .no_alloc = true,
    };
    t->nodes = ggml_init(params);
    int rc = t->nodes ? et_ggml_graphs_open(&t->graphs, t->cpu, threads) : ET_E_MEMORY;
    if (rc)
        return rc;
    for (int i = 0; i < SIZES; i++)
        build(t, i);
    rc = et_ggml_graphs_place(&t->graphs, t->graph, SIZES);
    for (int i = 0; rc == ET_OK && i < SIZES; i++) {
        t->cpu->set_n_threads(t->graphs.backend, rows_of[i] > 1 ? config->threads_batch : config->threads);
        t->plan[i] = ggml_backend_graph_plan_create(t->graphs.backend, t->graph[i]);
        rc = t->plan[i] ? ET_OK : ET_E_MEMORY;
    }
    return rc;
}

/* --- the C table --------------------------------------------------------------------------------------- */

static void place_rows(matvec_talker *t, const float *rows, int n)
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

static void norm_hidden(matvec_talker *t, const float *x)
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
    matvec_talker *t = base->self;
    const int start = base->n_past;
    if (n < 1)
        return ET_E_ARG;
    if (n > base->max_context - start)
        return ET_E_CONTEXT;
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
    matvec_talker *t = base->self;
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
    return ((matvec_talker *)base->self)->hidden;
}

static const float *logits(et_talker *base)
{
    return ((matvec_talker *)base->self)->logits;
}

/* --- life ---------------------------------------------------------------------------------------------- */

static void free_all(et_talker *base)
{
    matvec_talker *t = base->self;
    for (int i = 0; i < SIZES; i++)
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

/* Every size of graph once, then one more row, timed. */
static int warm_up(matvec_talker *t)
{
    const int rows = 2 * rows_of[0] - 1 < t->base.max_context ? 2 * rows_of[0] - 1 : t->base.max_context;
    float *zeros = calloc((size_t)rows * (size_t)t->base.hidden, sizeof *zeros);
    if (!zeros)
        return ET_E_MEMORY;
    int rc = feed(&t->base, zeros, rows);
    if (rc == ET_OK && rows < t->base.max_context) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        rc = feed(&t->base, zeros, 1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        t->base.warm_ns = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    }
    free(zeros);
    reset(&t->base);
    return rc;
}

/* ET_OK with *found false: the file is not for this. */
static int load(matvec_talker *t, et_gguf *g, const et_talker_config *config, int threads, bool *found)
{
    size_t most = 0;
    t->matrices = calloc((size_t)t->shape.layers * PARTS + 1, sizeof *t->matrices);
    t->attentions = calloc((size_t)t->shape.layers, sizeof *t->attentions);
    if (!t->matrices || !t->attentions) {
        et_gguf_fail(g, "out of memory");
        return ET_E_MEMORY;
    }
    *found = fits_all(g, t, &most);
    int rc = *found ? take_memory(g, t, threads) : ET_OK;
    if (rc || !*found)
        return rc;
    uint8_t *part = malloc(most);
    if (!part) {
        et_gguf_fail(g, "out of memory: %zu bytes for a matrix", most);
        return ET_E_MEMORY;
    }
    rc = read_matrices(g, t, part);
    free(part);
    return rc;
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
    matvec_talker *t = calloc(1, sizeof *t);
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
    int rc = load(t, &g, config, threads, &found);
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
        rc = warm_up(t);
    }
    if (rc || !found)
        free_all(&t->base);
    else
        *out = &t->base;
    return rc;
}
