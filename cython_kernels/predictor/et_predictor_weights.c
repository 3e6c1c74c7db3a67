/* Reads predictor.gguf into CPU buffers, each matrix in the layout that this CPU multiplies fastest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "et_predictor_parts.h"

#define ARCH "qwen3tts-predictor"

static int read_shape(et_predictor_shape *s, et_gguf *g)
{
    if (et_gguf_expect_str(g, "general.architecture", ARCH)
        || et_gguf_int(g, ARCH ".embedding_length", 1, ET_MAX_HIDDEN, &s->hidden)
        || et_gguf_int(g, ARCH ".input_embedding_length", 1, ET_MAX_HIDDEN, &s->input_hidden)
        || et_gguf_int(g, ARCH ".block_count", 1, ET_MAX_PREDICTOR_LAYERS, &s->layers)
        || et_gguf_int(g, ARCH ".feed_forward_length", 1, ET_MAX_FFN, &s->ffn)
        || et_gguf_int(g, ARCH ".attention.head_count", 1, ET_MAX_HEADS, &s->heads)
        || et_gguf_int(g, ARCH ".attention.head_count_kv", 1, s->heads, &s->kv_heads)
        || et_gguf_int(g, ARCH ".attention.key_length", 2, ET_MAX_HEAD_DIM, &s->head_dim)
        || et_gguf_int(g, ARCH ".vocab_size", 2, ET_MAX_VOCAB, &s->vocab)
        || et_gguf_int(g, ARCH ".code_groups", 2, ET_MAX_GROUPS, &s->groups)
        || et_gguf_float(g, ARCH ".attention.layer_norm_rms_epsilon", 0.0f, 1.0f, &s->eps)
        || et_gguf_float(g, ARCH ".rope.freq_base", 1.0f, 1e12f, &s->theta))
        return ET_E_ARG;
    if (s->heads % s->kv_heads) {
        et_gguf_fail(g, "key " ARCH ".attention.head_count is %d, not a multiple of head_count_kv %d", s->heads,
                     s->kv_heads);
        return ET_E_ARG;
    }
    if (s->head_dim % 2) {
        et_gguf_fail(g, "key " ARCH ".attention.key_length is %d, must be even", s->head_dim);
        return ET_E_ARG;
    }
    return ET_OK;
}

/* --- norms, caches, rotation: plain floats ------------------------------------------------------------ */

static int make_floats(et_predictor_model *m, et_gguf *g)
{
    const et_predictor_shape *s = &m->shape;
    size_t dim = (size_t)s->head_dim, half = dim / 2, positions = (size_t)s->groups;
    size_t cache = (size_t)s->kv_heads * positions * dim;
    m->floats = calloc((size_t)s->layers * 2 * (dim + cache) + 2 * positions * half, sizeof(float));
    if (!m->floats) {
        et_gguf_fail(g, "out of memory");
        return ET_E_MEMORY;
    }
    float *at = m->floats;
    for (int i = 0; i < s->layers; i++) {
        et_predictor_layer *l = &m->layers[i];
        char name[64];
        l->q_norm = at, at += dim;
        l->k_norm = at, at += dim;
        l->k_cache = at, at += cache;
        l->v_cache = at, at += cache;
        snprintf(name, sizeof name, "blk.%d.attn_q_norm.weight", i);
        if (et_gguf_floats(g, name, s->head_dim, l->q_norm))
            return ET_E_ARG;
        snprintf(name, sizeof name, "blk.%d.attn_k_norm.weight", i);
        if (et_gguf_floats(g, name, s->head_dim, l->k_norm))
            return ET_E_ARG;
    }
    m->cosine = at, at += positions * half;
    m->sine = at;
    for (size_t j = 0; j < half; j++) {
        float frequency = 1.0f / powf(s->theta, (float)(2 * j) / (float)dim);
        for (size_t p = 0; p < positions; p++) {
            m->cosine[p * half + j] = cosf((float)p * frequency);
            m->sine[p * half + j] = sinf((float)p * frequency);
        }
    }
    return ET_OK;
}

/* --- matrices ------------------------------------------------------------------------------------------ */

static bool known_type(enum ggml_type type)
{
    switch (type) {
    case GGML_TYPE_F32:
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_Q4_0:
    case GGML_TYPE_Q8_0:
    case GGML_TYPE_Q4_K:
    case GGML_TYPE_Q5_K:
    case GGML_TYPE_Q6_K:
        return true;
    default:
        return false;
    }
}

/* One matrix in memory, of up to three in the file on top of each other: fewer, larger products. */
typedef struct {
    struct ggml_tensor **dst;
    const char *names[3];
    int rows[3];
    int columns;
    bool widen_f16;        /* F16 weights as F32: ggml would round the activations to F16 as well */
} matrix;

static int declare_matrix(et_predictor_model *m, et_gguf *g, const matrix *x)
{
    et_gguf_tensor first = {0}, t;
    int64_t rows = 0;
    for (int i = 0; i < 3 && x->names[i]; i++) {
        if (et_gguf_find(g, x->names[i], x->rows[i], x->columns, &t))
            return ET_E_ARG;
        if (i == 0)
            first = t;
        if (!known_type(t.type)) {
            et_gguf_fail(g, "tensor %s has type %s, allowed are f32, f16, bf16, q8_0, q4_0, q4_K, q5_K, q6_K",
                         x->names[i], ggml_type_name(t.type));
            return ET_E_ARG;
        }
        if (t.type != first.type) {
            et_gguf_fail(g, "tensors %s and %s have different types, %s and %s", x->names[0], x->names[i],
                         ggml_type_name(first.type), ggml_type_name(t.type));
            return ET_E_ARG;
        }
        rows += x->rows[i];
    }
    enum ggml_type type = x->widen_f16 && first.type == GGML_TYPE_F16 ? GGML_TYPE_F32 : first.type;
    *x->dst = ggml_new_tensor_2d(m->tensors, type, x->columns, rows);
    ggml_set_name(*x->dst, x->names[0]);
    return ET_OK;
}

static int fill_matrix(et_gguf *g, const matrix *x)
{
    struct ggml_tensor *dst = *x->dst;
    size_t total = ggml_nbytes(dst), done = 0;
    uint8_t *bytes = malloc(total);
    if (!bytes) {
        et_gguf_fail(g, "out of memory: %zu bytes for tensor %s", total, x->names[0]);
        return ET_E_MEMORY;
    }
    int rc = ET_OK;
    for (int i = 0; rc == ET_OK && i < 3 && x->names[i]; i++) {
        et_gguf_tensor t;
        if (et_gguf_find(g, x->names[i], x->rows[i], x->columns, &t)) {
            rc = ET_E_ARG;
        } else if (t.type != dst->type) {
            /* Read into the upper half, widen from the front: never overtakes what is still to be read. */
            uint8_t *half = bytes + done + t.size;
            rc = et_gguf_read(g, &t, half) ? ET_E_ARG : ET_OK;
            if (rc == ET_OK)
                ggml_fp16_to_fp32_row((const ggml_fp16_t *)half, (float *)(bytes + done), (int64_t)t.size / 2);
            done += 2 * t.size;
        } else {
            rc = et_gguf_read(g, &t, bytes + done) ? ET_E_ARG : ET_OK;
            done += t.size;
        }
    }
    if (rc == ET_OK && !dst->buffer)
        et_matvec_pack(bytes, (int)dst->ne[1], (int)dst->ne[0], dst->type == GGML_TYPE_Q8_0, dst->data);
    else if (rc == ET_OK)
        ggml_backend_tensor_set(dst, bytes, 0, total);
    free(bytes);
    return rc;
}

/* All matrices of the model; the names live in `names`. */
static int list_matrices(et_predictor_model *m, matrix *list, char (*names)[64])
{
    const et_predictor_shape *s = &m->shape;
    const int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    int n = 0;
    for (int i = 0; i < s->layers; i++) {
        static const char *parts[] = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
        et_predictor_layer *l = &m->layers[i];
        char (*at)[64] = names + 7 * i;
        for (int j = 0; j < 7; j++)
            snprintf(at[j], sizeof *at, "blk.%d.%s.weight", i, parts[j]);
        list[n++] = (matrix){&l->qkv, {at[0], at[1], at[2]}, {q, kv, kv}, s->hidden, false};
        list[n++] = (matrix){&l->attn_output, {at[3]}, {s->hidden}, q, false};
        list[n++] = (matrix){&l->gate_up, {at[4], at[5]}, {s->ffn, s->ffn}, s->hidden, false};
        /* Activations of real checkpoints reach 1.5e5 here, beyond F16. */
        list[n++] = (matrix){&l->ffn_down, {at[6]}, {s->hidden}, s->ffn, true};
    }
    for (int i = 1; i < s->groups; i++) {
        char *name = names[7 * s->layers + i];
        snprintf(name, sizeof *names, "head.%d.weight", i);
        list[n++] = (matrix){&m->heads[i], {name}, {s->vocab}, s->hidden, false};
    }
    if (s->hidden != s->input_hidden)
        list[n++] = (matrix){&m->input_proj, {"input_proj.weight"}, {s->hidden}, s->input_hidden, false};
    return n;
}

/* --- all of it ----------------------------------------------------------------------------------------- */

static struct ggml_tensor *declare_vector(et_predictor_model *m, const char *name, int n)
{
    struct ggml_tensor *t = ggml_new_tensor_1d(m->tensors, GGML_TYPE_F32, n);
    ggml_set_name(t, name);
    return t;
}

static int fill_vectors(et_predictor_model *m, et_gguf *g)
{
    for (struct ggml_tensor *t = ggml_get_first_tensor(m->tensors); t; t = ggml_get_next_tensor(m->tensors, t)) {
        if (t->ne[1] == 1 && t->type == GGML_TYPE_F32 && ggml_n_dims(t) == 1) {
            if (et_gguf_floats(g, ggml_get_name(t), (int)t->ne[0], t->data))
                return ET_E_ARG;
        }
    }
    return ET_OK;
}

/* Everything expected was found; whatever else the file holds means that it is not what it seems. */
static int refuse_extra(const et_predictor_model *m, et_gguf *g, const char (*names)[64], int n_names)
{
    for (int64_t i = 0; i < gguf_get_n_tensors(g->gguf); i++) {
        const char *name = gguf_get_tensor_name(g->gguf, i);
        bool known = ggml_get_tensor(m->tensors, name) != NULL;
        for (int j = 0; j < n_names && !known; j++)
            known = !strcmp(names[j], name);
        for (int j = 0; j < m->shape.layers && !known; j++) {
            char q[64], k[64];
            snprintf(q, sizeof q, "blk.%d.attn_q_norm.weight", j);
            snprintf(k, sizeof k, "blk.%d.attn_k_norm.weight", j);
            known = !strcmp(q, name) || !strcmp(k, name);
        }
        if (!known) {
            et_gguf_fail(g, "tensor %s is not part of such a model", name);
            return ET_E_ARG;
        }
    }
    return ET_OK;
}

int et_predictor_load(et_predictor_model *m, et_gguf *g)
{
    int rc = read_shape(&m->shape, g);
    if (rc == ET_OK)
        rc = make_floats(m, g);
    if (rc)
        return rc;

    const et_predictor_shape *s = &m->shape;
    int max_tensors = 6 * s->layers + s->groups + 4;
    struct ggml_init_params params = {.mem_size = (size_t)max_tensors * ggml_tensor_overhead(), .no_alloc = true};
    matrix *list = calloc((size_t)max_tensors, sizeof *list);
    char (*names)[64] = calloc((size_t)(7 * s->layers + s->groups), sizeof *names);
    m->tensors = ggml_init(params);
    if (!list || !names || !m->tensors) {
        et_gguf_fail(g, "out of memory");
        rc = ET_E_MEMORY;
        goto out;
    }

    int n = list_matrices(m, list, names), n_tensors = n;
    for (int i = 0; rc == ET_OK && i < n; i++)
        rc = declare_matrix(m, g, &list[i]);
    if (rc)
        goto out;
    for (int i = 0; i < s->layers; i++, n_tensors += 2) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_norm.weight", i);
        m->layers[i].attn_norm = declare_vector(m, name, s->hidden);
        snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", i);
        m->layers[i].ffn_norm = declare_vector(m, name, s->hidden);
    }
    m->output_norm = declare_vector(m, "output_norm.weight", s->hidden);
    n_tensors++;
    if (m->input_proj) {
        m->input_bias = declare_vector(m, "input_proj.bias", s->hidden);
        n_tensors++;
    }

    rc = refuse_extra(m, g, (const char (*)[64])names, 7 * s->layers + s->groups);
    if (rc == ET_OK)
        rc = et_predictor_place(m, g, n, n_tensors);
    if (rc == ET_OK)
        rc = fill_vectors(m, g);
    for (int i = 0; rc == ET_OK && i < n; i++)
        rc = fill_matrix(g, &list[i]);
out:
    free(names);
    free(list);
    return rc;
}
