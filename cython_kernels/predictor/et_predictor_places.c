/* Where the predictor's weights go: each matrix to the buffer type, or the block of our own, that multiplies fastest. */
#include <stdlib.h>

#include "et_predictor_parts.h"

static int list_buffer_types(const et_ggml_cpu *cpu, ggml_backend_buffer_type_t *types)
{
    int n = 0;
    ggml_backend_buffer_type_t *list = cpu->extra_buffer_types ? cpu->extra_buffer_types(cpu->device) : NULL;
    for (; list && *list && n < ET_PREDICTOR_MAX_BUFTS - 1; list++)
        types[n++] = *list;
    types[n++] = ggml_backend_cpu_buffer_type();
    return n;
}

/* Whether products with this matrix work when it lies in a buffer of this type. */
static bool fits(ggml_backend_dev_t cpu, ggml_backend_buffer_type_t type, struct ggml_tensor *weight)
{
    struct ggml_init_params params = {.mem_size = 8 * ggml_tensor_overhead(), .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    ggml_backend_buffer_t probe = ggml_backend_buft_alloc_buffer(type, 0);
    bool ok = false;
    if (ctx && probe) {
        struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, weight->ne[0], 1);
        weight->buffer = probe;
        ok = ggml_backend_dev_supports_op(cpu, ggml_mul_mat(ctx, weight, x));
        weight->buffer = NULL;
    }
    if (probe)
        ggml_backend_buffer_free(probe);
    if (ctx)
        ggml_free(ctx);
    return ok;
}

/* Give every tensor of `chosen` (index into types) its place in one buffer of that type. */
static int place(et_predictor_model *m, et_gguf *g, ggml_backend_buffer_type_t type, const int8_t *chosen, int index,
                 bool plain)
{
    size_t align = ggml_backend_buft_get_alignment(type), total = 0;
    int i = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(m->tensors); t; t = ggml_get_next_tensor(m->tensors, t), i++) {
        if (chosen[i] == index)
            total += GGML_PAD(ggml_backend_buft_get_alloc_size(type, t), align);
    }
    if (!total)
        return ET_OK;
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, total);
    if (!buffer) {
        et_gguf_fail(g, "out of memory: %zu bytes of weights", total);
        return ET_E_MEMORY;
    }
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    m->buffers[m->n_buffers++] = buffer;
    m->weight_bytes += total;
    if (!plain)
        m->repacked_bytes += total;
    struct ggml_tallocr places = ggml_tallocr_new(buffer);
    i = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(m->tensors); t; t = ggml_get_next_tensor(m->tensors, t), i++) {
        if (chosen[i] == index && ggml_tallocr_alloc(&places, t) != GGML_STATUS_SUCCESS) {
            et_gguf_fail(g, "no place for tensor %s", ggml_get_name(t));
            return ET_E_BACKEND;
        }
    }
    return ET_OK;
}

enum { OWN = -1 };

/* Matrices for et_matvec in one block, which begins at a huge page. */
static int place_own(et_predictor_model *m, et_gguf *g, const int8_t *chosen)
{
    size_t total = 0, align = (size_t)2 << 20;
    for (int pass = 0; pass < 2; pass++) {
        uint8_t *at = m->own;
        int i = 0;
        for (struct ggml_tensor *t = ggml_get_first_tensor(m->tensors); t; t = ggml_get_next_tensor(m->tensors, t), i++) {
            if (chosen[i] != OWN)
                continue;
            if (pass)
                t->data = at, at += ggml_nbytes(t);
            else
                total += ggml_nbytes(t);
        }
        if (!total || pass)
            break;
        m->own_bytes = total;
        m->own = aligned_alloc(align, GGML_PAD(total, align));
        if (!m->own) {
            et_gguf_fail(g, "out of memory: %zu bytes of weights", total);
            return ET_E_MEMORY;
        }
    }
    m->weight_bytes += total;
    m->repacked_bytes += total;
    return ET_OK;
}

int et_predictor_place(et_predictor_model *m, et_gguf *g, int n_matrices, int n_tensors)
{
    ggml_backend_buffer_type_t types[ET_PREDICTOR_MAX_BUFTS];
    int n_types = list_buffer_types(m->cpu, types), rc = ET_OK;
    int8_t *chosen = malloc((size_t)n_tensors);
    if (!chosen) {
        et_gguf_fail(g, "out of memory");
        return ET_E_MEMORY;
    }
    int i = 0;
    for (struct ggml_tensor *t = ggml_get_first_tensor(m->tensors); t; t = ggml_get_next_tensor(m->tensors, t), i++) {
        const bool is_matrix = i < n_matrices;
        chosen[i] = (int8_t)(n_types - 1);
        bool own = is_matrix && m->use_own && (t->type == GGML_TYPE_Q4_0 || t->type == GGML_TYPE_Q8_0)
            && et_matvec_usable(t->ne[1], t->ne[0]);
        if (own)
            chosen[i] = OWN;
        for (int k = n_types - 2; is_matrix && !own && k >= 0; k--) {
            if (fits(m->cpu->device, types[k], t))
                chosen[i] = (int8_t)k;  /* the first in ggml's order wins */
        }
    }
    rc = place_own(m, g, chosen);
    for (int k = 0; rc == ET_OK && k < n_types; k++)
        rc = place(m, g, types[k], chosen, k, k == n_types - 1);
    free(chosen);
    return rc;
}
