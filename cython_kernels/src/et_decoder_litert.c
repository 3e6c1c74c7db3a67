/* The state of a stream is kept in two copies. A run reads one and writes the other, then they change
 * places: the graph may write a state before its last reader has run, so in-place state would be right or
 * wrong by the order of the operators, and a failed run would leave half a state behind. */
#include "et_decoder_litert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "et_tflite_check.h"
#include "et_weight_file.h"
#include "litert_c_api.h"

#define MAX_IO (ET_LITERT_MAX_STATES + 1)
#define MAX_STATE_BYTES ((size_t)256 << 20)
#define PADDING 128 /* kernels may read a little past the end of an input */

typedef struct {
    LiteRtParamIndex index;
    LiteRtTensorBuffer codes_buffer, pcm_buffer;
    int32_t *codes; /* [n][groups] */
    float *pcm;     /* [n * samples_per_frame] */
    /* In the order of the subgraph, for each of the two directions of the state. */
    LiteRtTensorBuffer inputs[2][MAX_IO], outputs[2][MAX_IO];
} signature;

typedef struct {
    LiteRtRankedTensorType type;
    size_t bytes;
    float *data[2];
    LiteRtTensorBuffer buffer[2];
} state;

typedef struct {
    et_decoder base;
    LiteRtEnvironment env;
    LiteRtModel model;
    LiteRtOptions options;
    LiteRtCompiledModel compiled;
    int entries;
    int n_states;
    int current; /* the copy that holds the stream's state */
    size_t state_bytes;
    int fully_delegated;
    int gpu; /* buffers are the GPU's; data, codes and pcm are not used */
    state states[ET_LITERT_MAX_STATES];
    signature signatures[8];
    char *error;
    size_t error_size;
} decoder;

static int fail(decoder *d, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(decoder *d, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(d->error, d->error_size, format, args);
    va_end(args);
    return code;
}

#define CHECK(d, call, what)                                                       \
    do {                                                                           \
        LiteRtStatus status_ = (call);                                             \
        if (status_ != LITERT_OK)                                                  \
            return fail(d, ET_E_BACKEND, "%s: LiteRT status %d", what, status_);   \
    } while (0)

static void *aligned(size_t bytes) {
    void *memory = NULL;
    size_t rounded = (bytes + PADDING + LITERT_HOST_ALIGNMENT - 1) & ~(size_t)(LITERT_HOST_ALIGNMENT - 1);
    if (posix_memalign(&memory, LITERT_HOST_ALIGNMENT, rounded))
        return NULL;
    memset(memory, 0, rounded);
    return memory;
}

static int open_model(decoder *d, const et_litert_config *c) {
    /* Only what is asked for: otherwise LiteRT searches for and loads every GPU and NPU plug-in. */
    const int accelerators = d->gpu ? LITERT_HW_CPU | LITERT_HW_GPU : LITERT_HW_CPU;
    const LiteRtEnvOption env_options[] = {
        {LITERT_ENV_AUTO_REGISTER_ACCELERATORS, {LITERT_ANY_INT, {.int_value = accelerators}}},
        {LITERT_ENV_MIN_LOG_SEVERITY, {LITERT_ANY_INT, {.int_value = LITERT_LOG_ERROR}}},
    };
    CHECK(d, LiteRtCreateEnvironment(2, env_options, &d->env), "creating the LiteRT environment");
    CHECK(d, LiteRtCreateModelFromFile(d->env, c->path, &d->model), "reading the model");
    return ET_OK;
}

static int compile_on_gpu(decoder *d) {
    bool fully = false;
    CHECK(d, LiteRtCreateOptions(&d->options), "creating options");
    CHECK(d, LiteRtSetOptionsHardwareAccelerators(d->options, LITERT_HW_GPU), "choosing the GPU");
    CHECK(d, LiteRtCreateCompiledModel(d->env, d->model, d->options, &d->compiled), "compiling the model for the GPU");
    CHECK(d, LiteRtCompiledModelIsFullyAccelerated(d->compiled, &fully), "asking what was delegated");
    d->fully_delegated = fully;
    return fully ? ET_OK : fail(d, ET_E_BACKEND, "some operators do not run on the GPU");
}

static int compile_model(decoder *d, const et_litert_config *c) {
    if (d->gpu)
        return compile_on_gpu(d);
    char toml[160];
    LiteRtOpaqueOptions cpu = NULL;
    if (c->cache_fd >= 0)
        snprintf(toml, sizeof toml, "num_threads = %d\nweight_cache_file_descriptor = %d\n", c->threads, c->cache_fd);
    else
        snprintf(toml, sizeof toml, "num_threads = %d\nweight_cache_file_path = \":memory\"\n", c->threads);
    CHECK(d, LiteRtCreateOptions(&d->options), "creating options");
    CHECK(d, LiteRtSetOptionsHardwareAccelerators(d->options, LITERT_HW_CPU), "choosing the CPU");
    char *text = strdup(toml);
    if (!text)
        return fail(d, ET_E_MEMORY, "out of memory");
    LiteRtStatus status = LiteRtCreateOpaqueOptions("xnnpack", text, free, &cpu);
    if (status != LITERT_OK) {
        free(text);
        return fail(d, ET_E_BACKEND, "creating CPU options: LiteRT status %d", status);
    }
    status = LiteRtAddOpaqueOptions(d->options, cpu);
    if (status != LITERT_OK) {
        LiteRtDestroyOpaqueOptions(cpu);
        return fail(d, ET_E_BACKEND, "setting CPU options: LiteRT status %d", status);
    }
    CHECK(d, LiteRtCreateCompiledModel(d->env, d->model, d->options, &d->compiled), "compiling the model");
    bool fully = false;
    CHECK(d, LiteRtCompiledModelIsFullyAccelerated(d->compiled, &fully), "asking what was delegated");
    d->fully_delegated = fully;
    return ET_OK;
}

/* One signature of the file: number 0 of each side is codes or pcm, number i + 1 is state i. */
typedef struct {
    LiteRtSignature signature;
    LiteRtSubgraph subgraph;
    LiteRtParamIndex index;
    const char *key;
    LiteRtParamIndex n[2]; /* inputs, outputs */
    LiteRtParamIndex at[2][MAX_IO];
    LiteRtRankedTensorType type[2][MAX_IO];
    unsigned char used[2][MAX_IO];
} io;

enum { IN = 0, OUT = 1 };

static const char *side_name(int side) {
    return side == IN ? "input" : "output";
}

static const char *tensor_name(int side, int number, char name[16]) {
    if (number == 0)
        return side == IN ? "codes" : "pcm";
    snprintf(name, 16, "state_%02u", (unsigned)(number - 1) % ET_LITERT_MAX_STATES);
    return name;
}

static LiteRtStatus tensor_at(const io *s, int side, LiteRtParamIndex i, LiteRtTensor *t) {
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
static int locate(decoder *d, io *s, int side, int number) {
    char buffer[16];
    const char *name = tensor_name(side, number, buffer);
    LiteRtTensor tensor = NULL, other = NULL;
    LiteRtParamIndex at;
    int type_id = -1;
    LiteRtStatus status = side == IN ? LiteRtGetSignatureInputTensor(s->signature, name, &tensor)
                                     : LiteRtGetSignatureOutputTensor(s->signature, name, &tensor);
    if (status != LITERT_OK || !tensor)
        return fail(d, ET_E_BACKEND, "signature %s has no %s named %s", s->key, side_name(side), name);
    if (LiteRtGetTensorTypeId(tensor, &type_id) != LITERT_OK || type_id != LITERT_TENSOR_RANKED ||
        LiteRtGetRankedTensorType(tensor, &s->type[side][number]) != LITERT_OK)
        return fail(d, ET_E_BACKEND, "%s %s of signature %s has no static shape", side_name(side), name, s->key);
    for (at = 0; at < s->n[side]; at++)
        if (tensor_at(s, side, at, &other) == LITERT_OK && other == tensor)
            break;
    if (at == s->n[side] || s->used[side][at])
        return fail(d, ET_E_BACKEND, "%s %s of signature %s is not a tensor of its own", side_name(side), name, s->key);
    s->used[side][at] = 1;
    s->at[side][number] = at;
    for (LiteRtParamIndex i = 0; side == OUT && i < s->n[IN]; i++)
        if (tensor_at(s, IN, i, &other) == LITERT_OK && other == tensor)
            return fail(d, ET_E_BACKEND, "output %s of signature %s is one of its inputs", name, s->key);
    return ET_OK;
}

static int expect_type(decoder *d, const io *s, int side, int number, const LiteRtRankedTensorType *want) {
    char name[16], a[SHAPE_TEXT], b[SHAPE_TEXT];
    if (same_type(&s->type[side][number], want))
        return ET_OK;
    shape_text(&s->type[side][number], a, sizeof a);
    shape_text(want, b, sizeof b);
    return fail(d, ET_E_BACKEND, "%s %s of signature %s is %s, expected %s", side_name(side),
                tensor_name(side, number, name), s->key, a, b);
}

static int find_signature(decoder *d, const char *key, io *s) {
    LiteRtParamIndex n = 0, named[2];
    CHECK(d, LiteRtGetNumModelSignatures(d->model, &n), "counting signatures");
    for (s->index = 0; s->index < n; s->index++) {
        CHECK(d, LiteRtGetModelSignature(d->model, s->index, &s->signature), "reading a signature");
        CHECK(d, LiteRtGetSignatureKey(s->signature, &s->key), "reading a signature's key");
        if (strcmp(s->key, key) == 0)
            break;
    }
    if (s->index == n)
        return fail(d, ET_E_BACKEND, "the model has no signature %s", key);
    CHECK(d, LiteRtGetSignatureSubgraph(s->signature, &s->subgraph), "reading a signature's graph");
    CHECK(d, LiteRtGetNumSubgraphInputs(s->subgraph, &s->n[IN]), "counting inputs");
    CHECK(d, LiteRtGetNumSubgraphOutputs(s->subgraph, &s->n[OUT]), "counting outputs");
    CHECK(d, LiteRtGetNumSignatureInputs(s->signature, &named[IN]), "counting inputs");
    CHECK(d, LiteRtGetNumSignatureOutputs(s->signature, &named[OUT]), "counting outputs");
    for (int side = IN; side <= OUT; side++)
        if (named[side] != s->n[side] || s->n[side] < 1 || s->n[side] > MAX_IO)
            return fail(d, ET_E_BACKEND, "signature %s names %zu %ss of its graph's %zu, expected all and 1 to %d",
                        key, named[side], side_name(side), s->n[side], MAX_IO);
    if (s->n[IN] != s->n[OUT])
        return fail(d, ET_E_BACKEND, "signature %s has %zu inputs and %zu outputs, expected codes and pcm and the "
                    "same states on both sides", key, s->n[IN], s->n[OUT]);
    return ET_OK;
}

/* The first signature says what the states are; the later ones must agree. */
static int check_state(decoder *d, const io *s, int i, int first) {
    state *st = &d->states[i];
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
            return fail(d, ET_E_BACKEND, "input state_%02d of signature %s is %s, expected float32 of a fixed shape, "
                        "all states together at most %zu bytes", i, s->key, text, MAX_STATE_BYTES);
        }
        st->type = *type;
        st->bytes = bytes;
        d->state_bytes += bytes;
    }
    int err = expect_type(d, s, IN, i + 1, &st->type);
    return err ? err : expect_type(d, s, OUT, i + 1, &st->type);
}

/* Names, types and shapes of one signature, as the file declares them. */
static int check_signature(decoder *d, io *s, int n, int first) {
    char key[32];
    int err;
    LiteRtRankedTensorType codes = make_type(LITERT_TYPE_INT32, 3, 1, n, d->base.groups);
    LiteRtRankedTensorType pcm = make_type(LITERT_TYPE_FLOAT32, 2, 1, n * d->base.samples_per_frame, 0);
    snprintf(key, sizeof key, "decode_%d", n);
    if ((err = find_signature(d, key, s)))
        return err;
    if (!first && (int)s->n[IN] - 1 != d->n_states)
        return fail(d, ET_E_BACKEND, "signature %s has %d states, the first signature %d", key, (int)s->n[IN] - 1,
                    d->n_states);
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

/* The shapes of the outputs that the operators really produce: the file may declare smaller ones, and the
 * kernels would then write past the end of our buffers. */
static int check_computed_shapes(decoder *d, const io *s) {
    LiteRtLayout layouts[MAX_IO];
    char name[16], a[SHAPE_TEXT], b[SHAPE_TEXT];
    memset(layouts, 0, sizeof layouts);
    CHECK(d, LiteRtGetCompiledModelOutputTensorLayouts(d->compiled, s->index, s->n[OUT], layouts, true),
          "computing the outputs' shapes");
    for (int number = 0; number <= d->n_states; number++) {
        LiteRtRankedTensorType computed = s->type[OUT][number];
        computed.layout = layouts[s->at[OUT][number]];
        if (same_type(&s->type[OUT][number], &computed))
            continue;
        shape_text(&s->type[OUT][number], a, sizeof a);
        shape_text(&computed, b, sizeof b);
        return fail(d, ET_E_BACKEND, "output %s of signature %s is declared %s but computed %s",
                    tensor_name(OUT, number, name), s->key, a, b);
    }
    return ET_OK;
}

/* The compiled model must take plain host memory of the size that the shape says. */
static int check_requirements(decoder *d, const io *s, int side, int number, size_t bytes) {
    char name[16];
    LiteRtTensorBufferRequirements req = NULL;
    LiteRtParamIndex at = s->at[side][number];
    int n = 0, type = 0, host = 0;
    size_t need = 0;
    CHECK(d, side == IN ? LiteRtGetCompiledModelInputBufferRequirements(d->compiled, s->index, at, &req)
                        : LiteRtGetCompiledModelOutputBufferRequirements(d->compiled, s->index, at, &req),
          "asking for buffer requirements");
    CHECK(d, LiteRtGetNumTensorBufferRequirementsSupportedBufferTypes(req, &n), "asking for buffer types");
    for (int i = 0; i < n; i++)
        if (LiteRtGetTensorBufferRequirementsSupportedTensorBufferType(req, i, &type) == LITERT_OK)
            host |= type == LITERT_BUFFER_HOST_MEMORY;
    CHECK(d, LiteRtGetTensorBufferRequirementsBufferSize(req, &need), "asking for buffer sizes");
    if (d->gpu && need >= bytes)
        return ET_OK;
    if (!host || need != bytes)
        return fail(d, ET_E_BACKEND, "%s %s of signature %s: LiteRT wants %zu bytes%s, expected %zu of host memory",
                    side_name(side), tensor_name(side, number, name), s->key, need, host ? "" : " on a device", bytes);
    return ET_OK;
}

static int make_buffer(decoder *d, const LiteRtRankedTensorType *type, size_t bytes, void **memory,
                       LiteRtTensorBuffer *buffer) {
    if (!(*memory = aligned(bytes)))
        return fail(d, ET_E_MEMORY, "out of memory");
    CHECK(d, LiteRtCreateTensorBufferFromHostMemory(type, *memory, bytes, NULL, buffer), "wrapping host memory");
    return ET_OK;
}

/* A buffer in the GPU's memory for one tensor of a signature. */
static int make_gpu_buffer(decoder *d, const io *s, int side, int number, LiteRtTensorBuffer *buffer) {
    LiteRtTensorBufferRequirements req = NULL;
    LiteRtParamIndex at = s->at[side][number];
    CHECK(d, side == IN ? LiteRtGetCompiledModelInputBufferRequirements(d->compiled, s->index, at, &req)
                        : LiteRtGetCompiledModelOutputBufferRequirements(d->compiled, s->index, at, &req),
          "asking for buffer requirements");
    CHECK(d, LiteRtCreateManagedTensorBufferFromRequirements(d->env, &s->type[side][number], req, buffer),
          "taking memory of the GPU");
    return ET_OK;
}

/* Copy host memory into a buffer of the GPU; from NULL: zeros. */
static LiteRtStatus upload(LiteRtTensorBuffer buffer, const void *from, size_t bytes) {
    void *memory = NULL;
    LiteRtStatus status = LiteRtLockTensorBuffer(buffer, &memory, LITERT_LOCK_WRITE);
    if (status != LITERT_OK)
        return status;
    if (from)
        memcpy(memory, from, bytes);
    else
        memset(memory, 0, bytes);
    return LiteRtUnlockTensorBuffer(buffer);
}

static LiteRtStatus download(LiteRtTensorBuffer buffer, void *to, size_t bytes) {
    void *memory = NULL;
    LiteRtStatus status = LiteRtLockTensorBuffer(buffer, &memory, LITERT_LOCK_READ);
    if (status != LITERT_OK)
        return status;
    memcpy(to, memory, bytes);
    return LiteRtUnlockTensorBuffer(buffer);
}

/* `first` is a signature that has been checked; all have the same states. */
static int make_states(decoder *d, const io *first) {
    int err;
    for (int i = 0; i < d->n_states; i++)
        for (int copy = 0; copy < 2; copy++) {
            state *st = &d->states[i];
            if (d->gpu) {
                if ((err = make_gpu_buffer(d, first, IN, i + 1, &st->buffer[copy])))
                    return err;
                CHECK(d, upload(st->buffer[copy], NULL, st->bytes), "clearing memory of the GPU");
            } else if ((err = make_buffer(d, &st->type, st->bytes, (void **)&st->data[copy], &st->buffer[copy])))
                return err;
        }
    return ET_OK;
}

static int bind_signature(decoder *d, signature *sig, const io *s, int n) {
    const size_t codes_bytes = sizeof(int32_t) * (size_t)n * (size_t)d->base.groups;
    const size_t pcm_bytes = sizeof(float) * (size_t)n * (size_t)d->base.samples_per_frame;
    int err;
    sig->index = s->index;
    if ((err = check_computed_shapes(d, s)))
        return err;
    if (d->gpu)
        err = make_gpu_buffer(d, s, IN, 0, &sig->codes_buffer);
    else
        err = make_buffer(d, &s->type[IN][0], codes_bytes, (void **)&sig->codes, &sig->codes_buffer);
    if (err)
        return err;
    if (d->gpu)
        err = make_gpu_buffer(d, s, OUT, 0, &sig->pcm_buffer);
    else
        err = make_buffer(d, &s->type[OUT][0], pcm_bytes, (void **)&sig->pcm, &sig->pcm_buffer);
    if (err)
        return err;
    for (int number = 0; number <= d->n_states; number++) {
        const state *st = number ? &d->states[number - 1] : NULL;
        if ((err = check_requirements(d, s, IN, number, st ? st->bytes : codes_bytes)) ||
            (err = check_requirements(d, s, OUT, number, st ? st->bytes : pcm_bytes)))
            return err;
        for (int way = 0; way < 2; way++) {
            sig->inputs[way][s->at[IN][number]] = st ? st->buffer[way] : sig->codes_buffer;
            sig->outputs[way][s->at[OUT][number]] = st ? st->buffer[!way] : sig->pcm_buffer;
        }
    }
    return ET_OK;
}

/* Everything that can be checked before compiling is checked before. */
static int load(decoder *d, const et_litert_config *c) {
    int err;
    if (et_tflite_check(c->path, d->error, d->error_size))
        return ET_E_BACKEND;
    io *all = calloc((size_t)c->n_sizes, sizeof *all);
    if (!all)
        return fail(d, ET_E_MEMORY, "out of memory");
    err = open_model(d, c);
    for (int i = 0; !err && i < c->n_sizes; i++)
        err = check_signature(d, &all[i], c->sizes[i], i == 0);
    if (!err && (err = compile_model(d, c)) == ET_OK)
        err = make_states(d, &all[0]);
    for (int i = 0; !err && i < c->n_sizes; i++)
        err = bind_signature(d, &d->signatures[i], &all[i], c->sizes[i]);
    free(all);
    return err;
}

static int reset(et_decoder *base) {
    decoder *d = base->self;
    for (int i = 0; i < d->n_states; i++) {
        state *st = &d->states[i];
        if (!d->gpu)
            memset(st->data[d->current], 0, st->bytes);
        else if (upload(st->buffer[d->current], NULL, st->bytes) != LITERT_OK)
            return ET_E_BACKEND;
    }
    return ET_OK;
}

static int decode(et_decoder *base, const int32_t *codes, int n, float *pcm) {
    decoder *d = base->self;
    const size_t count = (size_t)(n > 0 ? n : 0) * (size_t)base->groups;
    signature *sig = NULL;
    for (int i = 0; i < base->n_sizes; i++)
        if (base->sizes[i] == n)
            sig = &d->signatures[i];
    if (!sig)
        return ET_E_ARG;
    for (size_t i = 0; i < count; i++)
        if (codes[i] < 0 || codes[i] >= d->entries)
            return ET_E_ARG;
    if (!d->gpu)
        memcpy(sig->codes, codes, count * sizeof *codes);
    else if (upload(sig->codes_buffer, codes, count * sizeof *codes) != LITERT_OK)
        return ET_E_BACKEND;
    const int way = d->current;
    const size_t n_io = (size_t)d->n_states + 1;
    if (LiteRtRunCompiledModel(d->compiled, sig->index, n_io, sig->inputs[way], n_io, sig->outputs[way]) != LITERT_OK)
        return ET_E_BACKEND;
    const size_t bytes = (size_t)n * (size_t)base->samples_per_frame * sizeof *pcm;
    if (d->gpu && download(sig->pcm_buffer, pcm, bytes) != LITERT_OK)
        return ET_E_BACKEND;
    d->current = !way;
    if (!d->gpu)
        memcpy(pcm, sig->pcm, bytes);
    return ET_OK;
}

/* Once to let each size set itself up, once to see what it takes. The stream's state is zero again afterwards. */
static int warm_up(decoder *d) {
    et_decoder *base = &d->base;
    const int largest = base->sizes[base->n_sizes - 1];
    int32_t *codes = calloc((size_t)largest * (size_t)base->groups, sizeof *codes);
    float *pcm = calloc((size_t)largest * (size_t)base->samples_per_frame, sizeof *pcm);
    int err = codes && pcm ? ET_OK : fail(d, ET_E_MEMORY, "out of memory");
    for (int i = 0; !err && i < 2 * base->n_sizes; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        err = decode(base, codes, base->sizes[i / 2], pcm);
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (err)
            fail(d, err, "the first run of signature decode_%d failed", base->sizes[i / 2]);
        base->warm_ns[i / 2] = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    }
    free(codes);
    free(pcm);
    return err ? err : reset(base);
}

static int check_config(decoder *d, const et_litert_config *c) {
    if (c->groups < 1 || c->groups > ET_MAX_GROUPS)
        return fail(d, ET_E_ARG, "groups is %d, allowed 1 to %d", c->groups, ET_MAX_GROUPS);
    if (c->samples_per_frame < 1 || c->samples_per_frame > ET_MAX_SPF)
        return fail(d, ET_E_ARG, "samples_per_frame is %d, allowed 1 to %d", c->samples_per_frame, ET_MAX_SPF);
    if (c->entries < 1 || c->entries > 65536)
        return fail(d, ET_E_ARG, "entries is %d, allowed 1 to 65536", c->entries);
    if (c->threads < 1 || c->threads > 64)
        return fail(d, ET_E_ARG, "threads is %d, allowed 1 to 64", c->threads);
    if (c->n_sizes < 1 || c->n_sizes > 8)
        return fail(d, ET_E_ARG, "chunks has %d sizes, allowed 1 to 8", c->n_sizes);
    for (int i = 0; i < c->n_sizes; i++)
        if (c->sizes[i] < 1 || c->sizes[i] > ET_MAX_CHUNK || (i && c->sizes[i] <= c->sizes[i - 1]))
            return fail(d, ET_E_ARG, "chunks[%d] is %d, allowed 1 to %d, ascending", i, c->sizes[i], ET_MAX_CHUNK);
    return ET_OK;
}

int et_litert_create(et_decoder **out, const et_litert_config *c, char *error, size_t size) {
    int err;
    *out = NULL;
    decoder *d = calloc(1, sizeof *d);
    if (!d) {
        snprintf(error, size, "out of memory");
        return ET_E_MEMORY;
    }
    d->error = error;
    d->error_size = size;
    d->base.self = d;
    d->base.reset = reset;
    d->base.decode = decode;
    if ((err = check_config(d, c)) == ET_OK) {
        d->base.groups = c->groups;
        d->base.samples_per_frame = c->samples_per_frame;
        d->base.n_sizes = c->n_sizes;
        memcpy(d->base.sizes, c->sizes, sizeof(int) * (size_t)c->n_sizes);
        d->entries = c->entries;
        d->gpu = c->gpu;
        err = load(d, c);
        if (!err)
            err = warm_up(d);
        if (!err && !c->gpu && c->cache_fd >= 0) {
            /* The weights were read from the model's file once, to look them up in the cache. */
            et_drop_file_pages(c->path);
            err = warm_up(d);
        }
    }
    if (err != ET_OK) {
        et_litert_destroy(&d->base);
        return err;
    }
    *out = &d->base;
    return ET_OK;
}

void et_litert_destroy(et_decoder *base) {
    if (!base)
        return;
    decoder *d = base->self;
    if (d->compiled)
        LiteRtDestroyCompiledModel(d->compiled);
    for (int i = 0; i < 8; i++) {
        if (d->signatures[i].codes_buffer)
            LiteRtDestroyTensorBuffer(d->signatures[i].codes_buffer);
        if (d->signatures[i].pcm_buffer)
            LiteRtDestroyTensorBuffer(d->signatures[i].pcm_buffer);
        free(d->signatures[i].codes);
        free(d->signatures[i].pcm);
    }
    for (int i = 0; i < ET_LITERT_MAX_STATES; i++)
        for (int copy = 0; copy < 2; copy++) {
            if (d->states[i].buffer[copy])
                LiteRtDestroyTensorBuffer(d->states[i].buffer[copy]);
            free(d->states[i].data[copy]);
        }
    if (d->options)
        LiteRtDestroyOptions(d->options);
    if (d->model)
        LiteRtDestroyModel(d->model);
    if (d->env)
        LiteRtDestroyEnvironment(d->env);
    free(d);
}

void et_litert_get_info(const et_decoder *base, et_litert_info *info) {
    const decoder *d = base->self;
    info->n_states = d->n_states;
    info->state_bytes = d->state_bytes;
    info->fully_delegated = d->fully_delegated;
}
