/* See et_talker_file.h. */
#include "et_talker_file.h"

#include "base/et_limits.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "weights/et_gguf.h"

enum { LAYER_TENSORS = 11, OTHER_TENSORS = 3 };

/* libllama aborts on norms of another type. */
static int check_norm(et_gguf *g, const et_gguf_tensor *t)
{
    if (t->type == GGML_TYPE_F32)
        return 0;
    return et_gguf_fail(g, "tensor %s has type %s, expected f32", t->name, ggml_type_name(t->type));
}

static int check_layer(et_gguf *g, const et_talker_shape *s, int layer)
{
    const struct { const char *name; int64_t rows, columns; } parts[LAYER_TENSORS] = {
        {"attn_norm", 0, s->hidden},
        {"attn_q", (int64_t)s->heads * s->head_dim, s->hidden},
        {"attn_k", (int64_t)s->kv_heads * s->head_dim, s->hidden},
        {"attn_v", (int64_t)s->kv_heads * s->head_dim, s->hidden},
        {"attn_q_norm", 0, s->head_dim},
        {"attn_k_norm", 0, s->head_dim},
        {"attn_output", s->hidden, (int64_t)s->heads * s->head_dim},
        {"ffn_norm", 0, s->hidden},
        {"ffn_gate", s->ffn, s->hidden},
        {"ffn_up", s->ffn, s->hidden},
        {"ffn_down", s->hidden, s->ffn},
    };
    for (int i = 0; i < LAYER_TENSORS; i++) {
        char name[64];
        et_gguf_tensor t;
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, parts[i].name);
        if (et_gguf_find(g, name, parts[i].rows, parts[i].columns, &t) || (!parts[i].rows && check_norm(g, &t)))
            return -1;
    }
    return 0;
}

/* Nothing else that would change what is computed: scaled rotations, biases, experts. libllama aborts on some of it. */
static int check_nothing_else(et_gguf *g, const et_talker_shape *s)
{
    static const char prefix[] = "qwen3.", *const known[] = {
        "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size",
        "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.layer_norm_rms_epsilon",
        "rope.freq_base"};
    static const char *const as_keys[] = {"attention.value_length", "rope.dimension_count"};
    for (int64_t i = 0; i < gguf_get_n_kv(g->gguf); i++) {
        const char *key = gguf_get_key(g->gguf, i);
        bool found = strncmp(key, prefix, sizeof prefix - 1) != 0;
        const char *name = found ? key : key + sizeof prefix - 1;
        for (size_t j = 0; !found && j < sizeof known / sizeof *known; j++)
            found = !strcmp(name, known[j]);
        for (size_t j = 0; !found && j < sizeof as_keys / sizeof *as_keys; j++) {
            int value;
            found = !strcmp(name, as_keys[j]);
            if (found && et_gguf_int(g, key, s->head_dim, s->head_dim, &value))
                return -1;
        }
        if (!found)
            return et_gguf_fail(g, "key %.64s is none of a talker's", key);
    }
    int64_t tensors = gguf_get_n_tensors(g->gguf), expected = (int64_t)s->layers * LAYER_TENSORS + OTHER_TENSORS;
    if (tensors != expected)
        return et_gguf_fail(g, "holds %" PRId64 " tensors, a talker of %d layers has %" PRId64, tensors, s->layers,
                            expected);
    return 0;
}

int et_talker_check_file(const char *path, et_talker_shape *s, char *err, size_t err_size)
{
    et_gguf g;
    if (et_gguf_open(&g, path, err, err_size))
        return -1;
    et_gguf_tensor first, t;
    int rc = et_gguf_expect_str(&g, "general.architecture", "qwen3")
        || et_gguf_expect_str(&g, "tokenizer.ggml.model", "none")
        || et_gguf_int(&g, "qwen3.embedding_length", 1, ET_MAX_HIDDEN, &s->hidden)
        || et_gguf_int(&g, "qwen3.block_count", 1, ET_MAX_TALKER_LAYERS, &s->layers)
        || et_gguf_int(&g, "qwen3.feed_forward_length", 1, ET_MAX_FFN, &s->ffn)
        || et_gguf_int(&g, "qwen3.attention.head_count", 1, ET_MAX_HEADS, &s->heads)
        || et_gguf_int(&g, "qwen3.attention.head_count_kv", 1, s->heads, &s->kv_heads)
        || et_gguf_int(&g, "qwen3.attention.key_length", 2, ET_MAX_HEAD_DIM, &s->head_dim)
        || et_gguf_int(&g, "qwen3.vocab_size", 2, ET_MAX_VOCAB, &s->vocab)
        || et_gguf_float(&g, "qwen3.attention.layer_norm_rms_epsilon", 0.0f, 1.0f, &s->eps)
        || et_gguf_float(&g, "qwen3.rope.freq_base", 1.0f, 1e12f, &s->theta)
        || et_gguf_find(&g, "token_embd.weight", s->vocab, s->hidden, &t)
        || et_gguf_find(&g, "output.weight", s->vocab, s->hidden, &t)
        || et_gguf_find(&g, "output_norm.weight", 0, s->hidden, &t) || check_norm(&g, &t)
        || et_gguf_find(&g, "blk.0.attn_q.weight", (int64_t)s->heads * s->head_dim, s->hidden, &first);
    if (!rc && s->heads % s->kv_heads)
        rc = et_gguf_fail(&g, "qwen3.attention.head_count %d is no multiple of head_count_kv %d", s->heads,
                          s->kv_heads);
    if (!rc && s->head_dim % 2)
        rc = et_gguf_fail(&g, "qwen3.attention.key_length is %d, must be even", s->head_dim);
    for (int i = 0; !rc && i < s->layers; i++)
        rc = check_layer(&g, s, i);
    if (!rc)
        rc = check_nothing_else(&g, s);
    s->type = rc ? GGML_TYPE_F32 : first.type;
    et_gguf_close(&g);
    return rc ? -1 : 0;
}
