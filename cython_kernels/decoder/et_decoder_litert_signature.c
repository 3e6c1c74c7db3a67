/* Whether the signatures of a file are those of a decoder, and where their tensors stand. */
#include <stdio.h>
#include <string.h>

#include "et_decoder_litert_parts.h"

#define MAX_STATE_BYTES ((size_t)256 << 20)

const char *et_litert_side_name(int side) {
    return side == IN ? "input" : "output";
}

const char *et_litert_tensor_name(int side, int number, char name[16]) {
    if (number == 0)
        return side == IN ? "codes" : "pcm";
    snprintf(name, 16, "state_%02u", (unsigned)(number - 1) % ET_MAX_STATES);
    return name;
}

static LiteRtStatus tensor_at(const litert_io *s, int side, LiteRtParamIndex i, LiteRtTensor *t) {
    return side == IN ? LiteRtGetSubgraphInput(s->subgraph, i, t) : LiteRtGetSubgraphOutput(s->subgraph, i, t);
}

static void shape_text(const LiteRtRankedTensorType *type, char *text, size_t size) {
    const int e = type->element_type;
    int used = snprintf(text, size, "%s[", e == LITERT_TYPE_FLOAT32 ? "float32" : e == LITERT_TYPE_INT32 ? "int32"
                                                                                                          : "other");
    for (unsigned i = 0; i < type->layout.rank && i < LITERT_MAX_RANK; i++)
        used += snprintf(text + used, size - (size_t)used, i ? ",%d" : "%d", type->layout.dimensions[i]);
    snprintf(text + used, size - (size_t)used, "]");
}

enum { SHAPE_TEXT = 128 }; /* room for a name and LITERT_MAX_RANK numbers */

static int same_type(const LiteRtRankedTensorType *a, const LiteRtRankedTensorType *b) {
    if (a->element_type != b->element_type || a->layout.rank != b->layout.rank || a->layout.rank > LITERT_MAX_RANK)
        return 0;
    for (unsigned i = 0; i < a->layout.rank; i++)
        if (a->layout.dimensions[i] != b->layout.dimensions[i])
            return 0;
    return 1;
}

static LiteRtRankedTensorType make_type(int element_type, unsigned rank, int a, int b, int c) {
    LiteRtRankedTensorType type;
    memset(&type, 0, sizeof type);
    type.element_type = element_type;
    type.layout.rank = rank;
    type.layout.dimensions[0] = a;
    type.layout.dimensions[1] = b;
    type.layout.dimensions[2] = c;
    return type;
}

/* Find a tensor by name: its type, its place, and that no other name of this signature stands there. */
static int locate(litert_decoder *d, litert_io *s, int side, int number) {
    char buffer[16];
    const char *name = et_litert_tensor_name(side, number, buffer);
    LiteRtTensor tensor = NULL, other = NULL;
    LiteRtParamIndex at;
    int type_id = -1;
    LiteRtStatus status = side == IN ? LiteRtGetSignatureInputTensor(s->signature, name, &tensor)
                                     : LiteRtGetSignatureOutputTensor(s->signature, name, &tensor);
    if (status != LITERT_OK || !tensor)
        return et_litert_fail(d, ET_E_BACKEND, "signature %s has no %s named %s", s->key, et_litert_side_name(side),
                              name);
    if (LiteRtGetTensorTypeId(tensor, &type_id) != LITERT_OK || type_id != LITERT_TENSOR_RANKED ||
        LiteRtGetRankedTensorType(tensor, &s->type[side][number]) != LITERT_OK)
        return et_litert_fail(d, ET_E_BACKEND, "%s %s of signature %s has no static shape",
                              et_litert_side_name(side), name, s->key);
    for (at = 0; at < s->n[side]; at++)
        if (tensor_at(s, side, at, &other) == LITERT_OK && other == tensor)
            break;
    if (at == s->n[side] || s->used[side][at])
        return et_litert_fail(d, ET_E_BACKEND, "%s %s of signature %s is not a tensor of its own",
                              et_litert_side_name(side), name, s->key);
    s->used[side][at] = 1;
    s->at[side][number] = at;
    for (LiteRtParamIndex i = 0; side == OUT && i < s->n[IN]; i++)
        if (tensor_at(s, IN, i, &other) == LITERT_OK && other == tensor)
            return et_litert_fail(d, ET_E_BACKEND, "output %s of signature %s is one of its inputs", name, s->key);
    return ET_OK;
}

static int expect_type(litert_decoder *d, const litert_io *s, int side, int number,
                       const LiteRtRankedTensorType *want) {
    char name[16], a[SHAPE_TEXT], b[SHAPE_TEXT];
    if (same_type(&s->type[side][number], want))
        return ET_OK;
    shape_text(&s->type[side][number], a, sizeof a);
    shape_text(want, b, sizeof b);
    return et_litert_fail(d, ET_E_BACKEND, "%s %s of signature %s is %s, expected %s", et_litert_side_name(side),
                          et_litert_tensor_name(side, number, name), s->key, a, b);
}

static int find_signature(litert_decoder *d, const char *key, litert_io *s) {
    LiteRtParamIndex n = 0, named[2];
    ET_LITERT_TRY(d, LiteRtGetNumModelSignatures(d->model, &n), "counting signatures");
    for (s->index = 0; s->index < n; s->index++) {
        ET_LITERT_TRY(d, LiteRtGetModelSignature(d->model, s->index, &s->signature), "reading a signature");
        ET_LITERT_TRY(d, LiteRtGetSignatureKey(s->signature, &s->key), "reading a signature's key");
        if (strcmp(s->key, key) == 0)
            break;
    }
    if (s->index == n)
        return et_litert_fail(d, ET_E_BACKEND, "the model has no signature %s", key);
    ET_LITERT_TRY(d, LiteRtGetSignatureSubgraph(s->signature, &s->subgraph), "reading a signature's graph");
    ET_LITERT_TRY(d, LiteRtGetNumSubgraphInputs(s->subgraph, &s->n[IN]), "counting inputs");
    ET_LITERT_TRY(d, LiteRtGetNumSubgraphOutputs(s->subgraph, &s->n[OUT]), "counting outputs");
    ET_LITERT_TRY(d, LiteRtGetNumSignatureInputs(s->signature, &named[IN]), "counting inputs");
    ET_LITERT_TRY(d, LiteRtGetNumSignatureOutputs(s->signature, &named[OUT]), "counting outputs");
    for (int side = IN; side <= OUT; side++)
        if (named[side] != s->n[side] || s->n[side] < 1 || s->n[side] > ET_LITERT_MAX_IO)
            return et_litert_fail(d, ET_E_BACKEND,
                                  "signature %s names %zu %ss of its graph's %zu, expected all and 1 to %d", key,
                                  named[side], et_litert_side_name(side), s->n[side], ET_LITERT_MAX_IO);
    if (s->n[IN] != s->n[OUT])
        return et_litert_fail(d, ET_E_BACKEND, "signature %s has %zu inputs and %zu outputs, expected codes and "
                              "pcm and the same states on both sides", key, s->n[IN], s->n[OUT]);
    return ET_OK;
}

/* The first signature says what the states are; the later ones must agree. */
static int check_state(litert_decoder *d, const litert_io *s, int i, int first) {
    litert_state *st = &d->states[i];
    if (first) {
        const LiteRtRankedTensorType *type = &s->type[IN][i + 1];
        size_t bytes = sizeof(float);
        int ok = type->element_type == LITERT_TYPE_FLOAT32 && type->layout.rank <= LITERT_MAX_RANK;
        for (unsigned k = 0; ok && k < type->layout.rank; k++) {
            int dim = type->layout.dimensions[k];
            ok = dim > 0 && (size_t)dim <= MAX_STATE_BYTES / bytes;
            bytes *= ok ? (size_t)dim : 1;
        }
        if (!ok || d->state_bytes + bytes > MAX_STATE_BYTES) {
            char text[SHAPE_TEXT];
            shape_text(type, text, sizeof text);
            return et_litert_fail(d, ET_E_BACKEND, "input state_%02d of signature %s is %s, expected float32 of a "
                                  "fixed shape, all states together at most %zu bytes", i, s->key, text,
                                  MAX_STATE_BYTES);
        }
        st->type = *type;
        st->bytes = bytes;
        d->state_bytes += bytes;
    }
    int err = expect_type(d, s, IN, i + 1, &st->type);
    return err ? err : expect_type(d, s, OUT, i + 1, &st->type);
}

int et_litert_check_signature(litert_decoder *d, litert_io *s, int n, int first) {
    char key[32];
    int err;
    LiteRtRankedTensorType codes = make_type(LITERT_TYPE_INT32, 3, 1, n, d->base.groups);
    LiteRtRankedTensorType pcm = make_type(LITERT_TYPE_FLOAT32, 2, 1, n * d->base.samples_per_frame, 0);
    snprintf(key, sizeof key, "decode_%d", n);
    if ((err = find_signature(d, key, s)))
        return err;
    if (!first && (int)s->n[IN] - 1 != d->n_states)
        return et_litert_fail(d, ET_E_BACKEND, "signature %s has %d states, the first signature %d", key,
                              (int)s->n[IN] - 1, d->n_states);
    d->n_states = (int)s->n[IN] - 1;
    for (int side = IN; side <= OUT; side++)
        for (int number = 0; number <= d->n_states; number++)
            if ((err = locate(d, s, side, number)))
                return err;
    if ((err = expect_type(d, s, IN, 0, &codes)) || (err = expect_type(d, s, OUT, 0, &pcm)))
        return err;
    for (int i = 0; i < d->n_states; i++)
        if ((err = check_state(d, s, i, first)))
            return err;
    return ET_OK;
}

int et_litert_check_computed(litert_decoder *d, const litert_io *s) {
    LiteRtLayout layouts[ET_LITERT_MAX_IO];
    char name[16], a[SHAPE_TEXT], b[SHAPE_TEXT];
    memset(layouts, 0, sizeof layouts);
    ET_LITERT_TRY(d, LiteRtGetCompiledModelOutputTensorLayouts(d->compiled, s->index, s->n[OUT], layouts, true),
                  "computing the outputs' shapes");
    for (int number = 0; number <= d->n_states; number++) {
        LiteRtRankedTensorType computed = s->type[OUT][number];
        computed.layout = layouts[s->at[OUT][number]];
        if (same_type(&s->type[OUT][number], &computed))
            continue;
        shape_text(&s->type[OUT][number], a, sizeof a);
        shape_text(&computed, b, sizeof b);
        return et_litert_fail(d, ET_E_BACKEND, "output %s of signature %s is declared %s but computed %s",
                              et_litert_tensor_name(OUT, number, name), s->key, a, b);
    }
    return ET_OK;
}
