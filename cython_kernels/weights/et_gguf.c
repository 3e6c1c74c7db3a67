#include "et_gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/et_log.h"

int et_gguf_fail(et_gguf *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(g->err, g->err_size, format, args);
    va_end(args);
    return -1;
}

static int check_extents(et_gguf *g)
{
    uint64_t start = gguf_get_data_offset(g->gguf);
    int64_t n = gguf_get_n_tensors(g->gguf);
    if (n == 0)
        return et_gguf_fail(g, "holds no tensors");
    for (int64_t i = 0; i < n; i++) {
        uint64_t offset = gguf_get_tensor_offset(g->gguf, i), size = gguf_get_tensor_size(g->gguf, i);
        if (start > g->size || offset > g->size - start || size > g->size - start - offset)
            return et_gguf_fail(g, "tensor %s lies outside the file (%" PRIu64 " bytes): truncated?",
                                gguf_get_tensor_name(g->gguf, i), g->size);
    }
    return 0;
}

int et_gguf_open(et_gguf *g, const char *path, char *err, size_t err_size)
{
    memset(g, 0, sizeof *g);
    g->err = err;
    g->err_size = err_size;
    g->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (g->fd < 0)
        return et_gguf_fail(g, "cannot open: %s", strerror(errno));

    struct stat st;
    char magic[4];
    int rc = 0;
    if (fstat(g->fd, &st) || !S_ISREG(st.st_mode))
        rc = et_gguf_fail(g, "not a regular file");
    else if (pread(g->fd, magic, 4, 0) != 4 || memcmp(magic, "GGUF", 4))
        rc = et_gguf_fail(g, "not a GGUF file");
    if (rc == 0) {
        g->size = (uint64_t)st.st_size;
        et_log_begin();
        struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
        g->gguf = gguf_init_from_file(path, params);
        if (!g->gguf) {
            et_log_describe(err, err_size, "damaged GGUF header");
            rc = -1;
        }
    }
    if (rc == 0)
        rc = check_extents(g);
    if (rc)
        et_gguf_close(g);
    return rc;
}

void et_gguf_close(et_gguf *g)
{
    if (g->gguf)
        gguf_free(g->gguf);
    if (g->fd >= 0)
        close(g->fd);
    g->gguf = NULL;
    g->fd = -1;
}

static int64_t find_key(et_gguf *g, const char *key)
{
    int64_t id = gguf_find_key(g->gguf, key);
    if (id < 0)
        et_gguf_fail(g, "key %s is missing", key);
    return id;
}

int et_gguf_expect_str(et_gguf *g, const char *key, const char *expected)
{
    int64_t id = find_key(g, key);
    if (id < 0)
        return -1;
    if (gguf_get_kv_type(g->gguf, id) != GGUF_TYPE_STRING)
        return et_gguf_fail(g, "key %s is not a string", key);
    const char *value = gguf_get_val_str(g->gguf, id);
    if (strcmp(value, expected))
        return et_gguf_fail(g, "key %s is \"%.64s\", expected \"%s\"", key, value, expected);
    return 0;
}

int et_gguf_int(et_gguf *g, const char *key, int lowest, int highest, int *value)
{
    int64_t id = find_key(g, key), v;
    if (id < 0)
        return -1;
    switch (gguf_get_kv_type(g->gguf, id)) {
    case GGUF_TYPE_UINT8: v = gguf_get_val_u8(g->gguf, id); break;
    case GGUF_TYPE_INT8: v = gguf_get_val_i8(g->gguf, id); break;
    case GGUF_TYPE_UINT16: v = gguf_get_val_u16(g->gguf, id); break;
    case GGUF_TYPE_INT16: v = gguf_get_val_i16(g->gguf, id); break;
    case GGUF_TYPE_UINT32: v = gguf_get_val_u32(g->gguf, id); break;
    case GGUF_TYPE_INT32: v = gguf_get_val_i32(g->gguf, id); break;
    case GGUF_TYPE_INT64: v = gguf_get_val_i64(g->gguf, id); break;
    case GGUF_TYPE_UINT64: {
        uint64_t u = gguf_get_val_u64(g->gguf, id);
        v = u > INT_MAX ? INT64_MAX : (int64_t)u;
        break;
    }
    default: return et_gguf_fail(g, "key %s is not an integer", key);
    }
    if (v < lowest || v > highest)
        return et_gguf_fail(g, "key %s is %" PRId64 ", allowed is %d..%d", key, v, lowest, highest);
    *value = (int)v;
    return 0;
}

int et_gguf_float(et_gguf *g, const char *key, float lowest, float highest, float *value)
{
    int64_t id = find_key(g, key);
    if (id < 0)
        return -1;
    double v;
    switch (gguf_get_kv_type(g->gguf, id)) {
    case GGUF_TYPE_FLOAT32: v = gguf_get_val_f32(g->gguf, id); break;
    case GGUF_TYPE_FLOAT64: v = gguf_get_val_f64(g->gguf, id); break;
    default: return et_gguf_fail(g, "key %s is not a float", key);
    }
    if (!(v >= lowest && v <= highest))
        return et_gguf_fail(g, "key %s is %g, allowed is %g..%g", key, v, (double)lowest, (double)highest);
    *value = (float)v;
    return 0;
}

int et_gguf_find(et_gguf *g, const char *name, int64_t rows, int64_t columns, et_gguf_tensor *t)
{
    int64_t id = gguf_find_tensor(g->gguf, name);
    if (id < 0)
        return et_gguf_fail(g, "tensor %s is missing", name);
    const int64_t *ne = gguf_get_tensor_ne(g->gguf, id);
    int64_t want_rows = rows ? rows : 1;
    if (ne[0] != columns || ne[1] != want_rows || ne[2] != 1 || ne[3] != 1) {
        if (rows)
            return et_gguf_fail(g, "tensor %s has shape [%" PRId64 ", %" PRId64 "], expected [%" PRId64 ", %" PRId64
                                "]", name, ne[1] * ne[2] * ne[3], ne[0], rows, columns);
        return et_gguf_fail(g, "tensor %s has %" PRId64 " values, expected %" PRId64, name,
                            ne[0] * ne[1] * ne[2] * ne[3], columns);
    }
    t->name = gguf_get_tensor_name(g->gguf, id);
    t->type = gguf_get_tensor_type(g->gguf, id);
    t->size = gguf_get_tensor_size(g->gguf, id);
    t->offset = gguf_get_data_offset(g->gguf) + gguf_get_tensor_offset(g->gguf, id);
    return 0;
}

int et_gguf_read(et_gguf *g, const et_gguf_tensor *t, void *dst)
{
    size_t done = 0;
    while (done < t->size) {
        ssize_t n = pread(g->fd, (char *)dst + done, t->size - done, (off_t)(t->offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return et_gguf_fail(g, "tensor %s cannot be read: %s", t->name, n ? strerror(errno) : "end of file");
        done += (size_t)n;
    }
    return 0;
}

int et_gguf_floats(et_gguf *g, const char *name, int n, float *dst)
{
    et_gguf_tensor t = {0};
    if (et_gguf_find(g, name, 0, n, &t))
        return -1;
    if (t.type != GGML_TYPE_F32)
        return et_gguf_fail(g, "tensor %s has type %s, expected f32", name, ggml_type_name(t.type));
    return et_gguf_read(g, &t, dst);
}
