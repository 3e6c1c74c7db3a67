/* The state of a stream is kept in two copies. A run reads one and writes the other, then they change
 * places: the graph may write a state before its last reader has run, so in-place state would be right or
 * wrong by the order of the operators, and a failed run would leave half a state behind. */
#include "et_decoder_litert.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* What LiteRT would only find out by reading past the end of the file. */
static int check_file(decoder *d, const char *path) {
    unsigned char head[8] = {0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(d, ET_E_BACKEND, "cannot be opened: %m");
    int ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    ssize_t got = ok ? pread(fd, head, sizeof head, 0) : 0;
    close(fd);
    if (!ok)
        return fail(d, ET_E_BACKEND, "not a regular file");
    if (got < (ssize_t)sizeof head || memcmp(head + 4, "TFL3", 4) != 0)
        return fail(d, ET_E_BACKEND, "not a TFLite file (no TFL3 identifier)");
    uint32_t root = head[0] | head[1] << 8 | head[2] << 16 | (uint32_t)head[3] << 24;
    if (root < sizeof head || (off_t)root + 4 > st.st_size)
        return fail(d, ET_E_BACKEND, "the root table lies outside the file (%lld bytes)", (long long)st.st_size);
    return ET_OK;
}

static int open_model(decoder *d, const et_litert_config *c) {
    /* CPU only: otherwise LiteRT searches for and loads GPU and NPU plug-ins. */
    const LiteRtEnvOption env_options[] = {
        {LITERT_ENV_AUTO_REGISTER_ACCELERATORS, {LITERT_ANY_INT, {.int_value = LITERT_HW_CPU}}},
        {LITERT_ENV_MIN_LOG_SEVERITY, {LITERT_ANY_INT, {.int_value = LITERT_LOG_ERROR}}},
    };
    CHECK(d, LiteRtCreateEnvironment(2, env_options, &d->env), "creating the LiteRT environment");
    CHECK(d, LiteRtCreateModelFromFile(d->env, c->path, &d->model), "reading the model");
    return ET_OK;
}

static int compile_model(decoder *d, const et_litert_config *c) {
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

/* The tensors of a signature by name, and where they stand in the subgraph's inputs or outputs. */
typedef struct {
    LiteRtSignature signature;
    LiteRtSubgraph subgraph;
    const char *key;
    LiteRtParamIndex n[2]; /* inputs, outputs */
    unsigned char used[2][MAX_IO];
} io;

enum { IN = 0, OUT = 1 };

static LiteRtStatus tensor_by_name(const io *s, int side, const char *name, LiteRtTensor *t) {
    return side == IN ? LiteRtGetSignatureInputTensor(s->signature, name, t)
                      : LiteRtGetSignatureOutputTensor(s->signature, name, t);
}

static LiteRtStatus tensor_at(const io *s, int side, LiteRtParamIndex i, LiteRtTensor *t) {
    return side == IN ? LiteRtGetSubgraphInput(s->subgraph, i, t) : LiteRtGetSubgraphOutput(s->subgraph, i, t);
}

static const char *side_name(int side) {
    return side == IN ? "input" : "output";
}

static void shape_text(const LiteRtRankedTensorType *type, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s[", type->element_type == LITERT_TYPE_FLOAT32 ? "float32"
                                                      : type->element_type == LITERT_TYPE_INT32 ? "int32"
                                                                                                : "other");
    for (unsigned i = 0; i < type->layout.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i ? ",%d" : "%d", type->layout.dimensions[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static int same_type(const LiteRtRankedTensorType *a, const LiteRtRankedTensorType *b) {
    if (a->element_type != b->element_type || a->layout.rank != b->layout.rank)
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

/* Find a tensor by name: its type, its place, and that nothing else of this signature stands there. */
static int locate(decoder *d, io *s, int side, const char *name, LiteRtRankedTensorType *type, LiteRtParamIndex *at) {
    LiteRtTensor tensor = NULL, other = NULL;
    int type_id = -1;
    if (tensor_by_name(s, side, name, &tensor) != LITERT_OK || !tensor)
        return fail(d, ET_E_BACKEND, "signature %s has no %s named %s", s->key, side_name(side), name);
    if (LiteRtGetTensorTypeId(tensor, &type_id) != LITERT_OK || type_id != LITERT_TENSOR_RANKED ||
        LiteRtGetRankedTensorType(tensor, type) != LITERT_OK)
        return fail(d, ET_E_BACKEND, "%s %s of signature %s has no static shape", side_name(side), name, s->key);
    for (*at = 0; *at < s->n[side]; ++*at)
        if (tensor_at(s, side, *at, &other) == LITERT_OK && other == tensor)
            break;
    if (*at == s->n[side] || s->used[side][*at])
        return fail(d, ET_E_BACKEND, "%s %s of signature %s is not a tensor of its own", side_name(side), name, s->key);
    s->used[side][*at] = 1;
    for (LiteRtParamIndex i = 0; side == OUT && i < s->n[IN]; i++)
        if (tensor_at(s, IN, i, &other) == LITERT_OK && other == tensor)
            return fail(d, ET_E_BACKEND, "output %s of signature %s is one of its inputs", name, s->key);
    return ET_OK;
}

static int expect_type(decoder *d, const io *s, int side, const char *name, const LiteRtRankedTensorType *got,
                       const LiteRtRankedTensorType *want) {
    char a[96], b[96];
    if (same_type(got, want))
        return ET_OK;
    shape_text(got, a, sizeof a);
    shape_text(want, b, sizeof b);
    return fail(d, ET_E_BACKEND, "%s %s of signature %s is %s, expected %s", side_name(side), name, s->key, a, b);
}

/* The compiled model must take plain host memory of the size that the shape says. */
static int check_requirements(decoder *d, const io *s, LiteRtParamIndex sig, int side, LiteRtParamIndex at,
                              const char *name, size_t bytes) {
    LiteRtTensorBufferRequirements req = NULL;
    int n = 0, type = 0, host = 0;
    size_t need = 0;
    CHECK(d, side == IN ? LiteRtGetCompiledModelInputBufferRequirements(d->compiled, sig, at, &req)
                        : LiteRtGetCompiledModelOutputBufferRequirements(d->compiled, sig, at, &req),
          "asking for buffer requirements");
    CHECK(d, LiteRtGetNumTensorBufferRequirementsSupportedBufferTypes(req, &n), "asking for buffer types");
    for (int i = 0; i < n; i++)
        if (LiteRtGetTensorBufferRequirementsSupportedTensorBufferType(req, i, &type) == LITERT_OK)
            host |= type == LITERT_BUFFER_HOST_MEMORY;
    CHECK(d, LiteRtGetTensorBufferRequirementsBufferSize(req, &need), "asking for buffer sizes");
    if (!host || need != bytes)
        return fail(d, ET_E_BACKEND, "%s %s of signature %s: LiteRT wants %zu bytes%s, expected %zu of host memory",
                    side_name(side), name, s->key, need, host ? "" : " on a device", bytes);
    return ET_OK;
}

static int make_buffer(decoder *d, const LiteRtRankedTensorType *type, void *memory, size_t bytes,
                       LiteRtTensorBuffer *buffer) {
    CHECK(d, LiteRtCreateTensorBufferFromHostMemory(type, memory, bytes, NULL, buffer), "wrapping host memory");
    return ET_OK;
}

/* First signature: the states are what it says. Later ones must agree. */
static int bind_state(decoder *d, io *s, signature *sig, int i, int first) {
    char name[24];
    LiteRtRankedTensorType type;
    LiteRtParamIndex in, out;
    state *st = &d->states[i];
    int err;
    snprintf(name, sizeof name, "state_%02d", i);
    if ((err = locate(d, s, IN, name, &type, &in)))
        return err;
    if (first) {
        size_t bytes = sizeof(float);
        int ok = type.element_type == LITERT_TYPE_FLOAT32 && type.layout.rank <= LITERT_MAX_RANK;
        for (unsigned k = 0; ok && k < type.layout.rank; k++) {
            int dim = type.layout.dimensions[k];
            ok = dim > 0 && (size_t)dim <= MAX_STATE_BYTES / bytes;
            bytes *= ok ? (size_t)dim : 1;
        }
        if (!ok || d->state_bytes + bytes > MAX_STATE_BYTES) {
            char text[96];
            shape_text(&type, text, sizeof text);
            return fail(d, ET_E_BACKEND, "input %s of signature %s is %s, expected float32 of a static shape, all "
                        "states together at most %zu bytes", name, s->key, text, MAX_STATE_BYTES);
        }
        st->type = type;
        st->bytes = bytes;
        d->state_bytes += bytes;
        for (int copy = 0; copy < 2; copy++) {
            if (!(st->data[copy] = aligned(bytes)))
                return fail(d, ET_E_MEMORY, "out of memory");
            if ((err = make_buffer(d, &type, st->data[copy], bytes, &st->buffer[copy])))
                return err;
        }
    } else if ((err = expect_type(d, s, IN, name, &type, &st->type))) {
        return err;
    }
    if ((err = locate(d, s, OUT, name, &type, &out)) || (err = expect_type(d, s, OUT, name, &type, &st->type)) ||
        (err = check_requirements(d, s, sig->index, IN, in, name, st->bytes)) ||
        (err = check_requirements(d, s, sig->index, OUT, out, name, st->bytes)))
        return err;
    for (int way = 0; way < 2; way++) {
        sig->inputs[way][in] = st->buffer[way];
        sig->outputs[way][out] = st->buffer[!way];
    }
    return ET_OK;
}

static int find_signature(decoder *d, const char *key, io *s, LiteRtParamIndex *index) {
    LiteRtParamIndex n = 0;
    CHECK(d, LiteRtGetNumModelSignatures(d->model, &n), "counting signatures");
    for (*index = 0; *index < n; ++*index) {
        CHECK(d, LiteRtGetModelSignature(d->model, *index, &s->signature), "reading a signature");
        CHECK(d, LiteRtGetSignatureKey(s->signature, &s->key), "reading a signature's key");
        if (strcmp(s->key, key) == 0)
            break;
    }
    if (*index == n)
        return fail(d, ET_E_BACKEND, "the model has no signature %s", key);
    LiteRtParamIndex named[2];
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

static int bind_signature(decoder *d, signature *sig, int n, int first) {
    char key[32];
    io s;
    int err;
    LiteRtRankedTensorType type, want;
    LiteRtParamIndex at;
    size_t bytes;
    memset(&s, 0, sizeof s);
    snprintf(key, sizeof key, "decode_%d", n);
    if ((err = find_signature(d, key, &s, &sig->index)))
        return err;
    int n_states = (int)s.n[IN] - 1;
    if (!first && n_states != d->n_states)
        return fail(d, ET_E_BACKEND, "signature %s has %d states, the first signature %d", key, n_states, d->n_states);
    d->n_states = n_states;

    want = make_type(LITERT_TYPE_INT32, 3, 1, n, d->base.groups);
    bytes = sizeof(int32_t) * (size_t)n * (size_t)d->base.groups;
    if ((err = locate(d, &s, IN, "codes", &type, &at)) || (err = expect_type(d, &s, IN, "codes", &type, &want)) ||
        (err = check_requirements(d, &s, sig->index, IN, at, "codes", bytes)))
        return err;
    if (!(sig->codes = aligned(bytes)))
        return fail(d, ET_E_MEMORY, "out of memory");
    if ((err = make_buffer(d, &want, sig->codes, bytes, &sig->codes_buffer)))
        return err;
    sig->inputs[0][at] = sig->inputs[1][at] = sig->codes_buffer;

    want = make_type(LITERT_TYPE_FLOAT32, 2, 1, n * d->base.samples_per_frame, 0);
    bytes = sizeof(float) * (size_t)n * (size_t)d->base.samples_per_frame;
    if ((err = locate(d, &s, OUT, "pcm", &type, &at)) || (err = expect_type(d, &s, OUT, "pcm", &type, &want)) ||
        (err = check_requirements(d, &s, sig->index, OUT, at, "pcm", bytes)))
        return err;
    if (!(sig->pcm = aligned(bytes)))
        return fail(d, ET_E_MEMORY, "out of memory");
    if ((err = make_buffer(d, &want, sig->pcm, bytes, &sig->pcm_buffer)))
        return err;
    sig->outputs[0][at] = sig->outputs[1][at] = sig->pcm_buffer;

    for (int i = 0; i < n_states; i++)
        if ((err = bind_state(d, &s, sig, i, first)))
            return err;
    return ET_OK;
}

static int reset(et_decoder *base) {
    decoder *d = base->self;
    for (int i = 0; i < d->n_states; i++)
        memset(d->states[i].data[d->current], 0, d->states[i].bytes);
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
    memcpy(sig->codes, codes, count * sizeof *codes);
    const int way = d->current;
    const size_t n_io = (size_t)d->n_states + 1;
    if (LiteRtRunCompiledModel(d->compiled, sig->index, n_io, sig->inputs[way], n_io, sig->outputs[way]) != LITERT_OK)
        return ET_E_BACKEND;
    d->current = !way;
    memcpy(pcm, sig->pcm, (size_t)n * (size_t)base->samples_per_frame * sizeof *pcm);
    return ET_OK;
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
        if ((err = check_file(d, c->path)) == ET_OK && (err = open_model(d, c)) == ET_OK)
            err = compile_model(d, c);
    }
    for (int i = 0; err == ET_OK && i < c->n_sizes; i++)
        err = bind_signature(d, &d->signatures[i], c->sizes[i], i == 0);
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
