/* Field numbers below are those of the TFLite schema, version 3. */
#include "et_tflite_check.h"

#include "et_flatbuffer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_RANK 8
#define MAX_TENSOR_BYTES ((uint64_t)1 << 31)

/* The options of an operator, one letter a field: b byte, i int32, s stride (int32, 1 and up, no default),
 * d dilation or multiplier (int32, 1 and up, default 1), f float, v vector of int32, x must be absent. */
typedef struct {
    uint8_t op, options, min_in, max_in, min_out, max_out;
    const char *fields;
} op_rule;

#define MANY 255
static const op_rule rules[] = {
    {0, 11, 2, 2, 1, 1, "bb"},                                   /* ADD */
    {2, 10, 1, MANY, 1, 1, "ib"},                                /* CONCATENATION */
    {3, 1, 2, 3, 1, 1, "bssbddb"},                               /* CONV_2D */
    {4, 2, 2, 3, 1, 1, "bssdbdd"},                               /* DEPTHWISE_CONV_2D */
    {6, 38, 1, 1, 1, 1, ""},                                     /* DEQUANTIZE */
    {9, 8, 2, 3, 1, 1, "bbbbbx"},                                /* FULLY_CONNECTED */
    {14, 0, 1, 1, 1, 1, ""},                                     /* LOGISTIC */
    {18, 21, 2, 2, 1, 1, "b"},                                   /* MUL */
    {19, 0, 1, 1, 1, 1, ""},                                     /* RELU */
    {20, 0, 1, 1, 1, 1, ""},                                     /* RELU_N1_TO_1 */
    {21, 0, 1, 1, 1, 1, ""},                                     /* RELU6 */
    {22, 17, 1, 2, 1, 1, "v"},                                   /* RESHAPE */
    {25, 9, 1, 1, 1, 1, "f"},                                    /* SOFTMAX */
    {28, 0, 1, 1, 1, 1, ""},                                     /* TANH */
    {34, 22, 2, 2, 1, 1, ""},                                    /* PAD */
    {36, 23, 2, 2, 1, 1, "ii"},                                  /* GATHER */
    {39, 26, 2, 2, 1, 1, ""},                                    /* TRANSPOSE */
    {40, 27, 2, 2, 1, 1, "b"},                                   /* MEAN */
    {41, 28, 2, 2, 1, 1, "bb"},                                  /* SUB */
    {42, 29, 2, 2, 1, 1, "b"},                                   /* DIV */
    {43, 30, 1, 1, 1, 1, "v"},                                   /* SQUEEZE */
    {45, 32, 4, 4, 1, 1, "iiiiib"},                              /* STRIDED_SLICE */
    {47, 33, 1, 1, 1, 1, ""},                                    /* EXP */
    {49, 35, 2, 2, 1, MANY, "i"},                                /* SPLIT */
    {53, 37, 1, 1, 1, 1, "bb"},                                  /* CAST */
    {55, 39, 2, 2, 1, 1, ""},                                    /* MAXIMUM */
    {57, 39, 2, 2, 1, 1, ""},                                    /* MINIMUM */
    {58, 41, 2, 2, 1, 1, ""},                                    /* LESS */
    {59, 42, 1, 1, 1, 1, ""},                                    /* NEG */
    {60, 43, 3, 3, 1, 1, ""},                                    /* PADV2 */
    {61, 44, 2, 2, 1, 1, ""},                                    /* GREATER */
    {62, 45, 2, 2, 1, 1, ""},                                    /* GREATER_EQUAL */
    {63, 46, 2, 2, 1, 1, ""},                                    /* LESS_EQUAL */
    {64, 47, 3, 3, 1, 1, ""},                                    /* SELECT */
    {65, 48, 3, 3, 1, 1, ""},                                    /* SLICE */
    {66, 0, 1, 1, 1, 1, ""},                                     /* SIN */
    {67, 49, 3, 4, 1, 1, "bssbb"},                               /* TRANSPOSE_CONV */
    {69, 51, 2, 2, 1, 1, ""},                                    /* TILE */
    {70, 52, 2, 2, 1, 1, ""},                                    /* EXPAND_DIMS */
    {73, 0, 1, 1, 1, 1, ""},                                     /* LOG */
    {74, 27, 2, 2, 1, 1, "b"},                                   /* SUM */
    {75, 0, 1, 1, 1, 1, ""},                                     /* SQRT */
    {76, 0, 1, 1, 1, 1, ""},                                     /* RSQRT */
    {78, 56, 2, 2, 1, 1, ""},                                    /* POW */
    {83, 59, 1, MANY, 1, 1, "ii"},                               /* PACK */
    {88, 64, 1, 1, 1, MANY, "ii"},                               /* UNPACK */
    {92, 66, 1, 1, 1, 1, ""},                                    /* SQUARE */
    {98, 75, 1, 1, 1, 1, "f"},                                   /* LEAKY_RELU */
    {99, 76, 2, 2, 1, 1, ""},                                    /* SQUARED_DIFFERENCE */
    {101, 78, 1, 1, 1, 1, ""},                                   /* ABS */
    {108, 84, 1, 1, 1, 1, ""},                                   /* COS */
    {111, 0, 1, 1, 1, 1, ""},                                    /* ELU */
    {114, 89, 1, 1, 1, 1, ""},                                   /* QUANTIZE */
    {117, 91, 1, 1, 1, 1, ""},                                   /* HARD_SWISH */
    {123, 98, 3, 3, 1, 1, ""},                                   /* SELECT_V2 */
    {126, 101, 2, 2, 1, 1, "bbb"},                               /* BATCH_MATMUL */
    {130, 104, 2, 2, 1, 1, ""},                              /* BROADCAST_TO */
    {150, 116, 1, 1, 1, 1, "b"},                                 /* GELU */
};

static const op_rule *rule_of(int code) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].op == code)
            return &rules[i];
    return NULL;
}

/* Bits of one element, 0 for a type that a decoder has no use for. */
static unsigned type_bits(int64_t type) {
    switch (type) {
    case 0: case 2: return 32;          /* float32, int32 */
    case 1: case 7: return 16;          /* float16, int16 */
    case 3: case 6: case 9: return 8;   /* uint8, bool, int8 */
    case 4: return 64;                  /* int64 */
    case 17: return 4;                  /* int4 */
    default: return 0;
    }
}

typedef struct {
    file *f;
    vector codes, buffers;
} model;

static int check_buffer(model *m, const table *t, uint64_t *bytes) {
    int err = 0;
    vector data = get_vector(m->f, t, 0, 1, &err);
    uint64_t offset = (uint64_t)scalar(m->f, t, 1, 8, 0, &err), size = (uint64_t)scalar(m->f, t, 2, 8, 0, &err);
    if (err)
        return err;
    *bytes = data.n;
    if (offset > 1) { /* data behind the flatbuffer, of files above 2 GB */
        if (offset > m->f->n || size > m->f->n - offset)
            return bad(m->f, "data lies outside the file");
        *bytes = size;
    }
    return 0;
}

static int check_quantization(file *f, const table *tensor, vector shape) {
    int err = 0;
    table q;
    size_t pos = target(f, tensor, 4, &err);
    if (err || !pos)
        return err;
    if (open_table(f, pos, &q))
        return -1;
    get_vector(f, &q, 0, 4, &err);
    get_vector(f, &q, 1, 4, &err);
    vector scale = get_vector(f, &q, 2, 4, &err), zero = get_vector(f, &q, 3, 8, &err);
    int64_t details = scalar(f, &q, 4, 1, 0, &err), dim = scalar(f, &q, 6, 4, 0, &err);
    if (err)
        return err;
    if (details || target(f, &q, 5, &err) || err)
        return bad(f, "this kind of quantization is not allowed");
    uint32_t channels = shape.n && dim >= 0 && dim < shape.n ? u32(f, shape.pos + 4 * (size_t)dim) : 1;
    if (dim < 0 || (dim && dim >= shape.n) || (scale.n > 1 && scale.n != channels) || zero.n > scale.n ||
        (zero.n && zero.n != scale.n))
        return bad(f, "%u scales and %u zero points do not fit its shape", scale.n, zero.n);
    return 0;
}

static int check_tensor(model *m, const table *t, uint8_t *constant) {
    file *f = m->f;
    int err = 0;
    vector shape = get_vector(f, t, 0, 4, &err), signature = get_vector(f, t, 7, 4, &err);
    int64_t type = scalar(f, t, 1, 1, 0, &err), buffer = scalar(f, t, 2, 4, 0, &err);
    int64_t variable = scalar(f, t, 5, 1, 0, &err), external = scalar(f, t, 10, 4, 0, &err);
    field(f, t, 8, 1, &err); /* has_rank */
    if (err || check_string(f, t, 3))
        return -1;
    const unsigned bits = type_bits(type);
    if (!bits || shape.n > MAX_RANK)
        return bad(f, "type %d of rank %u is not allowed", (int)type, shape.n);
    if (signature.n && signature.n != shape.n)
        return bad(f, "two shapes of different rank");
    uint64_t count = 1;
    for (uint32_t i = 0; i < shape.n; i++) {
        uint32_t dim = u32(f, shape.pos + 4 * (size_t)i);
        if (!dim || dim > INT32_MAX || count > MAX_TENSOR_BYTES / dim ||
            (signature.n && u32(f, signature.pos + 4 * (size_t)i) != dim))
            return bad(f, "dimension %u is %d, allowed is a fixed size", i, (int32_t)dim);
        count *= dim;
    }
    uint64_t bytes = (count * bits + 7) / 8, stored = 0;
    if (bytes > MAX_TENSOR_BYTES)
        return bad(f, "%llu bytes are too many", (unsigned long long)bytes);
    if (variable || external || absent(f, t, 6, "sparsity is") || absent(f, t, 9, "a variant type is"))
        return variable || external ? bad(f, "variable and external tensors are not allowed") : -1;
    if (buffer < 0 || buffer >= m->buffers.n)
        return bad(f, "buffer %d does not exist", (int)buffer);
    table b;
    if (element(f, m->buffers, (uint32_t)buffer, &b) || check_buffer(m, &b, &stored))
        return -1;
    if (stored && stored != bytes)
        return bad(f, "%llu bytes of data, expected %llu", (unsigned long long)stored, (unsigned long long)bytes);
    *constant = stored != 0;
    return check_quantization(f, t, shape);
}

static int check_options(file *f, const table *op, const op_rule *rule) {
    int err = 0;
    table t;
    int64_t type = scalar(f, op, 3, 1, 0, &err);
    size_t pos = target(f, op, 4, &err);
    if (err)
        return err;
    if ((type && type != rule->options) || !type != !pos)
        return bad(f, "options of type %d, expected %d", (int)type, rule->options);
    if (!pos)
        return strchr(rule->fields, 's') ? bad(f, "options are missing") : 0;
    if (open_table(f, pos, &t))
        return -1;
    const unsigned n = (unsigned)strlen(rule->fields);
    for (unsigned id = 0; id < n; id++) {
        const char kind = rule->fields[id];
        int64_t value;
        if (kind == 'x')
            err |= absent(f, &t, id, "this option is");
        else if (kind == 'v')
            get_vector(f, &t, id, 4, &err);
        else if (kind == 's' || kind == 'd') {
            value = scalar(f, &t, id, 4, kind == 'd', &err);
            if (!err && (value < 1 || value > 65536))
                err = bad(f, "option %u is %lld, allowed 1 to 65536", id, (long long)value);
        } else {
            value = scalar(f, &t, id, kind == 'b' ? 1 : 4, 0, &err);
            if (!err && kind == 'b' && value > 32) /* every enumeration in use is smaller */
                err = bad(f, "option %u is %lld", id, (long long)value);
        }
        if (err)
            return err;
    }
    if (t.vtable_size > 4 + 2 * n)
        for (unsigned id = n; 4 + 2 * id < t.vtable_size; id++)
            if (absent(f, &t, id, "an unknown option is"))
                return -1;
    return 0;
}

enum { UNKNOWN = 0, CONSTANT = 1, READY = 2 };

static int check_operator(model *m, const table *t, uint8_t *status, uint32_t n_tensors) {
    file *f = m->f;
    int err = 0;
    table code;
    uint32_t index = (uint32_t)scalar(f, t, 0, 4, 0, &err);
    vector inputs = get_vector(f, t, 1, 4, &err), outputs = get_vector(f, t, 2, 4, &err);
    vector mutated = get_vector(f, t, 7, 1, &err), temporaries = get_vector(f, t, 8, 4, &err);
    int64_t options2 = scalar(f, t, 11, 1, 0, &err);
    field(f, t, 6, 1, &err);  /* custom_options_format */
    field(f, t, 13, 4, &err); /* debug_metadata_index */
    if (err)
        return err;
    if (index >= m->codes.n || element(f, m->codes, index, &code))
        return bad(f, "operator code %u does not exist", index);
    int64_t old = (int8_t)scalar(f, &code, 0, 1, 0, &err), now = scalar(f, &code, 3, 4, 0, &err);
    const op_rule *rule = rule_of((int)(old > now ? old : now));
    if (err || !rule)
        return bad(f, "operator %d is not one that a decoder may use", (int)(old > now ? old : now));
    if (inputs.n < rule->min_in || (rule->max_in != MANY && inputs.n > rule->max_in) || outputs.n < rule->min_out ||
        (rule->max_out != MANY && outputs.n > rule->max_out))
        return bad(f, "operator %d has %u inputs and %u outputs", rule->op, inputs.n, outputs.n);
    for (uint32_t i = 0; i < mutated.n; i++)
        if (f->p[mutated.pos + i])
            return bad(f, "changed inputs are not allowed");
    if (temporaries.n || options2 || absent(f, t, 5, "custom options are") || absent(f, t, 9, "custom options are") ||
        absent(f, t, 12, "further options are"))
        return temporaries.n || options2 ? bad(f, "further options are not allowed") : -1;
    for (uint32_t i = 0; i < inputs.n; i++) {
        int32_t k = (int32_t)u32(f, inputs.pos + 4 * (size_t)i);
        if (k == -1 && i + 1 == inputs.n && i >= 2)
            continue; /* no bias */
        if (k < 0 || (uint32_t)k >= n_tensors || status[k] == UNKNOWN)
            return bad(f, "input %u is tensor %d, which has no value yet", i, k);
    }
    for (uint32_t i = 0; i < outputs.n; i++) {
        uint32_t k = u32(f, outputs.pos + 4 * (size_t)i);
        if (k >= n_tensors || status[k] != UNKNOWN)
            return bad(f, "output %u is tensor %d, which has a value already", i, (int32_t)k);
        status[k] = READY;
    }
    return check_options(f, t, rule);
}

static int check_subgraph(model *m, const table *t, unsigned number, uint32_t *n_tensors) {
    file *f = m->f;
    int err = 0;
    table x;
    snprintf(f->where, sizeof f->where, "graph %u", number);
    vector tensors = get_vector(f, t, 0, 4, &err), inputs = get_vector(f, t, 1, 4, &err);
    vector outputs = get_vector(f, t, 2, 4, &err), operators = get_vector(f, t, 3, 4, &err);
    field(f, t, 5, 4, &err); /* debug_metadata_index */
    if (err || check_string(f, t, 4))
        return -1;
    *n_tensors = tensors.n;
    uint8_t *status = calloc(tensors.n ? tensors.n : 1, 1);
    if (!status)
        return bad(f, "out of memory");
    for (uint32_t i = 0; !err && i < tensors.n; i++) {
        snprintf(f->where, sizeof f->where, "graph %u, tensor %u", number, i);
        err = element(f, tensors, i, &x) || check_tensor(m, &x, &status[i]);
    }
    snprintf(f->where, sizeof f->where, "graph %u", number);
    for (uint32_t i = 0; !err && i < inputs.n; i++) {
        uint32_t k = u32(f, inputs.pos + 4 * (size_t)i);
        if (k >= tensors.n || status[k] != UNKNOWN)
            err = bad(f, "input %u is tensor %d, which is constant or an input already", i, (int32_t)k);
        else
            status[k] = READY;
    }
    for (uint32_t i = 0; !err && i < operators.n; i++) {
        snprintf(f->where, sizeof f->where, "graph %u, operator %u", number, i);
        err = element(f, operators, i, &x) || check_operator(m, &x, status, tensors.n);
    }
    snprintf(f->where, sizeof f->where, "graph %u", number);
    for (uint32_t i = 0; !err && i < outputs.n; i++) {
        uint32_t k = u32(f, outputs.pos + 4 * (size_t)i);
        if (k >= tensors.n || status[k] != READY)
            err = bad(f, "output %u is tensor %d, which is never computed", i, (int32_t)k);
    }
    free(status);
    return err ? -1 : 0;
}

static int check_names(file *f, vector maps, uint32_t n_tensors) {
    table t;
    for (uint32_t i = 0; i < maps.n; i++) {
        int err = 0;
        if (element(f, maps, i, &t) || check_string(f, &t, 0))
            return -1;
        uint32_t k = (uint32_t)scalar(f, &t, 1, 4, 0, &err);
        if (err || !target(f, &t, 0, &err) || k >= n_tensors)
            return bad(f, "name %u has no tensor", i);
    }
    return 0;
}

static int check_model(file *f) {
    int err = 0;
    table root, t;
    model m = {f, {0, 0}, {0, 0}};
    uint32_t n_tensors[32] = {0};
    if (open_table(f, u32(f, 0), &root))
        return -1;
    int64_t version = scalar(f, &root, 0, 4, 0, &err);
    m.codes = get_vector(f, &root, 1, 4, &err);
    m.buffers = get_vector(f, &root, 4, 4, &err);
    vector graphs = get_vector(f, &root, 2, 4, &err), metadata_buffers = get_vector(f, &root, 5, 4, &err);
    vector metadata = get_vector(f, &root, 6, 4, &err), signatures = get_vector(f, &root, 7, 4, &err);
    if (err || check_string(f, &root, 3))
        return -1;
    if (version != 3)
        return bad(f, "schema version %lld, expected 3", (long long)version);
    if (graphs.n < 1 || graphs.n > 32 || signatures.n < 1)
        return bad(f, "%u graphs and %u signatures", graphs.n, signatures.n);
    if (absent(f, &root, 8, "external data is") || absent(f, &root, 9, "external data is"))
        return -1;
    for (uint32_t i = 0; i < m.codes.n; i++) {
        snprintf(f->where, sizeof f->where, "operator code %u", i);
        if (element(f, m.codes, i, &t) || absent(f, &t, 1, "a custom operator is"))
            return -1;
        field(f, &t, 0, 1, &err);
        field(f, &t, 2, 4, &err);
        field(f, &t, 3, 4, &err);
        if (err)
            return err;
    }
    for (uint32_t i = 0; i < m.buffers.n; i++) {
        uint64_t bytes;
        snprintf(f->where, sizeof f->where, "buffer %u", i);
        if (element(f, m.buffers, i, &t) || check_buffer(&m, &t, &bytes))
            return -1;
    }
    snprintf(f->where, sizeof f->where, "metadata");
    for (uint32_t i = 0; i < metadata_buffers.n; i++)
        if (u32(f, metadata_buffers.pos + 4 * (size_t)i) >= m.buffers.n)
            return bad(f, "a buffer does not exist");
    for (uint32_t i = 0; i < metadata.n; i++) {
        if (element(f, metadata, i, &t) || check_string(f, &t, 0))
            return -1;
        if ((uint64_t)scalar(f, &t, 1, 4, 0, &err) >= m.buffers.n || !target(f, &t, 0, &err) || err)
            return bad(f, "entry %u has no name or buffer", i);
    }
    for (uint32_t i = 0; i < graphs.n; i++)
        if (element(f, graphs, i, &t) || check_subgraph(&m, &t, i, &n_tensors[i]))
            return -1;
    for (uint32_t i = 0; i < signatures.n; i++) {
        snprintf(f->where, sizeof f->where, "signature %u", i);
        if (element(f, signatures, i, &t) || check_string(f, &t, 2))
            return -1;
        vector in = get_vector(f, &t, 0, 4, &err), out = get_vector(f, &t, 1, 4, &err);
        uint32_t graph = (uint32_t)scalar(f, &t, 4, 4, 0, &err);
        if (err || !target(f, &t, 2, &err) || graph >= graphs.n)
            return bad(f, "it has no name or graph");
        if (check_names(f, in, n_tensors[graph]) || check_names(f, out, n_tensors[graph]))
            return -1;
    }
    return 0;
}

int et_tflite_check(const char *path, char *error, size_t size) {
    file f = {NULL, 0, error, size, ""};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(error, size, "cannot be opened: %m");
        return -1;
    }
    void *p = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= 16)
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        snprintf(error, size, "not a TFLite file (%lld bytes)", (long long)st.st_size);
        return -1;
    }
    f.p = p;
    f.n = (size_t)st.st_size;
    int err = memcmp(f.p + 4, "TFL3", 4) ? -1 : check_model(&f);
    if (memcmp(f.p + 4, "TFL3", 4))
        snprintf(error, size, "not a TFLite file (no TFL3 identifier)");
    munmap(p, f.n);
    return err ? -1 : 0;
}
