/* What the talker by et_matvec holds: its matrices, packed, and the memory for everything else. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "et_talker_matvec_parts.h"

enum {
    LANES = 16,             /* positions come in such blocks */
    HUGE_PAGE = 2 << 20,
};

/* --- weights ------------------------------------------------------------------------------------------- */

/* A matrix of the model: up to three of the file on top of each other. */
typedef struct {
    char names[3][64];
    int rows[3], n, columns;
    bool gated;
} source;

static source source_of(const et_talker_shape *s, int index)
{
    static const char *const names[ET_TALKER_PARTS][3] = {
        {"attn_q", "attn_k", "attn_v"}, {"attn_output"}, {"ffn_gate", "ffn_up"}, {"ffn_down"}};
    const int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    if (index == s->layers * ET_TALKER_PARTS)
        return (source){.names = {"output.weight"}, .rows = {s->vocab}, .n = 1, .columns = s->hidden};
    source all[ET_TALKER_PARTS] = {
        {.rows = {q, kv, kv}, .n = 3, .columns = s->hidden},
        {.rows = {s->hidden}, .n = 1, .columns = q},
        {.rows = {s->ffn, s->ffn}, .n = 2, .columns = s->hidden, .gated = true},
        {.rows = {s->hidden}, .n = 1, .columns = s->ffn},
    };
    const int layer = index / ET_TALKER_PARTS, part = index % ET_TALKER_PARTS;
    source *x = &all[part];
    for (int i = 0; i < x->n; i++)
        snprintf(x->names[i], sizeof x->names[i], "blk.%d.%s.weight", layer, names[part][i]);
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

static bool fits_all(et_gguf *g, et_matvec_talker *t, size_t *most)
{
    const et_talker_shape *s = &t->shape;
    for (int i = 0; i <= s->layers * ET_TALKER_PARTS; i++) {
        source x = source_of(s, i);
        if (!fits(g, &x, &t->matrices[i], &t->packed_bytes, most))
            return false;
    }
    return et_talker_attend_usable(s->head_dim);
}

/* A matrix's parts one after the other: 16 rows never belong to two of them. */
static int read_matrices(et_gguf *g, et_matvec_talker *t, uint8_t *part)
{
    uint8_t *at = t->packed;
    for (int i = 0; i <= t->shape.layers * ET_TALKER_PARTS; i++) {
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
    if (et_gguf_floats(g, name, n, *at))
        return ET_E_ARG;
    *norm = *at;
    *at += n;
    return ET_OK;
}

static int read_norms(et_gguf *g, et_matvec_talker *t, float *at)
{
    const et_talker_shape *s = &t->shape;
    for (int i = 0; i < s->layers; i++) {
        et_talker_attention *a = &t->attentions[i].attention;
        const struct { const char *name; int n; const float **norm; } norms[] = {
            {"attn_norm", s->hidden, &t->matrices[i * ET_TALKER_PARTS].norm},
            {"attn_q_norm", s->head_dim, &a->q_norm},
            {"attn_k_norm", s->head_dim, &a->k_norm},
            {"ffn_norm", s->hidden, &t->matrices[i * ET_TALKER_PARTS + 2].norm},
        };
        for (size_t j = 0; j < sizeof norms / sizeof *norms; j++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", i, norms[j].name);
            if (read_norm(g, name, norms[j].n, &at, norms[j].norm))
                return ET_E_ARG;
        }
    }
    int rc = read_norm(g, "output_norm.weight", s->hidden, &at, &t->output_norm);
    t->matrices[s->layers * ET_TALKER_PARTS].norm = t->output_norm;
    return rc;
}

/* --- memory -------------------------------------------------------------------------------------------- */

static int take_memory(et_gguf *g, et_matvec_talker *t, int threads)
{
    const et_talker_shape *s = &t->shape;
    const size_t half = (size_t)s->head_dim / 2, most = (size_t)ET_TALKER_ROWS, hidden = (size_t)s->hidden;
    const size_t context = ((size_t)t->base.max_context + LANES - 1) / LANES * LANES;
    const size_t layer = (size_t)s->kv_heads * context * (size_t)s->head_dim;
    const size_t norms = (size_t)s->layers * 2 * (hidden + (size_t)s->head_dim) + hidden;
    t->cache_bytes = 2 * layer * (size_t)s->layers * sizeof *t->cache;
    t->cache = calloc(1, t->cache_bytes);
    t->floats = calloc(half * (1 + 2 * most) + hidden * (most + 1) + 2 * (size_t)threads * context + norms,
                       sizeof(float));
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
        t->attentions[i] = (et_attention_node){.talker = &t->base, .attention = {
            .heads = s->heads, .kv_heads = s->kv_heads, .head_dim = s->head_dim, .context = (int)context,
            .eps = s->eps, .keys = t->cache + 2 * layer * (size_t)i, .values = t->cache + 2 * layer * (size_t)i + layer,
            .cosine = t->cosine, .sine = t->sine, .scores = t->scores}};
    }
    for (int i = 0; i <= s->layers * ET_TALKER_PARTS; i++)
        t->matrices[i].eps = s->eps;
    return read_norms(g, t, at);
}

/* --- all of it ----------------------------------------------------------------------------------------- */

int et_talker_matvec_load(et_matvec_talker *t, et_gguf *g, int threads, bool *found)
{
    size_t most = 0;
    t->matrices = calloc((size_t)t->shape.layers * ET_TALKER_PARTS + 1, sizeof *t->matrices);
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
