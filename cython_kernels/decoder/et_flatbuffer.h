/* Reading a flatbuffer that nobody has checked: tables whose fields are found through a vtable of 16-bit
 * offsets, vectors and strings behind 32-bit offsets. Nothing outside the file is ever read. */
#ifndef ET_FLATBUFFER_H
#define ET_FLATBUFFER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    const uint8_t *p;
    size_t n;
    char *error;
    size_t error_size;
    char where[96]; /* what is being checked, for the message */
} file;

typedef struct {
    size_t pos, vtable;
    unsigned size, vtable_size;
} table;

typedef struct {
    size_t pos; /* of the first element */
    uint32_t n;
} vector;

static inline int bad(file *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline int bad(file *f, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(f->error, f->error_size, "damaged TFLite file: %s%s%s", f->where, *f->where ? ": " : "", what);
    return -1;
}

static inline int inside(const file *f, size_t pos, size_t bytes) {
    return pos <= f->n && bytes <= f->n - pos;
}

/* Little-endian reads at a place that was checked. */
static inline uint32_t u16(const file *f, size_t pos) {
    return f->p[pos] | (uint32_t)f->p[pos + 1] << 8;
}

static inline uint32_t u32(const file *f, size_t pos) {
    return u16(f, pos) | u16(f, pos + 2) << 16;
}

static inline uint64_t u64(const file *f, size_t pos) {
    return u32(f, pos) | (uint64_t)u32(f, pos + 4) << 32;
}

static inline int open_table(file *f, size_t pos, table *t) {
    if (pos % 4 || !inside(f, pos, 4))
        return bad(f, "a table lies outside the file");
    int64_t vtable = (int64_t)pos - (int32_t)u32(f, pos);
    if (vtable < 0 || vtable % 2 || !inside(f, (size_t)vtable, 4))
        return bad(f, "a vtable lies outside the file");
    t->pos = pos;
    t->vtable = (size_t)vtable;
    t->vtable_size = u16(f, t->vtable);
    t->size = u16(f, t->vtable + 2);
    if (t->vtable_size < 4 || t->vtable_size % 2 || !inside(f, t->vtable, t->vtable_size) || t->size < 4 ||
        !inside(f, pos, t->size))
        return bad(f, "a table reaches outside the file");
    for (unsigned i = 4; i < t->vtable_size; i += 2) {
        unsigned offset = u16(f, t->vtable + i);
        if (offset && (offset < 4 || offset >= t->size))
            return bad(f, "a field reaches outside its table");
    }
    return 0;
}

/* Place of a field of `bytes` bytes, 0 when it is absent; -1 through *err when it does not fit. */
static inline size_t field(file *f, const table *t, unsigned id, unsigned bytes, int *err) {
    unsigned slot = 4 + 2 * id;
    if (slot + 2 > t->vtable_size)
        return 0;
    unsigned offset = u16(f, t->vtable + slot);
    if (!offset)
        return 0;
    if (offset + bytes > t->size || (t->pos + offset) % bytes) {
        *err = bad(f, "field %u reaches outside its table", id);
        return 0;
    }
    return t->pos + offset;
}

static inline int64_t scalar(file *f, const table *t, unsigned id, unsigned bytes, int64_t absent, int *err) {
    size_t pos = field(f, t, id, bytes, err);
    if (!pos)
        return absent;
    if (bytes == 1)
        return f->p[pos];
    return bytes == 4 ? (int32_t)u32(f, pos) : (int64_t)u64(f, pos);
}

static inline size_t target(file *f, const table *t, unsigned id, int *err) {
    size_t pos = field(f, t, id, 4, err);
    if (!pos)
        return 0;
    uint64_t to = (uint64_t)pos + u32(f, pos);
    if (to == pos || to > f->n || !inside(f, (size_t)to, 4)) {
        *err = bad(f, "field %u points outside the file", id);
        return 0;
    }
    return (size_t)to;
}

static inline vector get_vector(file *f, const table *t, unsigned id, unsigned element, int *err) {
    vector v = {0, 0};
    size_t pos = target(f, t, id, err);
    if (!pos)
        return v;
    v.n = u32(f, pos);
    v.pos = pos + 4;
    /* Readers take elements of 4 and 8 bytes as aligned. */
    if (pos % 4 || (element <= 8 && v.n && v.pos % element) || !inside(f, v.pos, (size_t)v.n * element))
        *err = bad(f, "the vector in field %u reaches outside the file", id);
    if (*err)
        v.n = 0;
    return v;
}

static inline int check_string(file *f, const table *t, unsigned id) {
    int err = 0;
    vector v = get_vector(f, t, id, 1, &err);
    if (!err && v.pos && (!inside(f, v.pos, (size_t)v.n + 1) || f->p[v.pos + v.n] || memchr(f->p + v.pos, 0, v.n)))
        err = bad(f, "the text in field %u has no end", id);
    return err;
}

static inline int absent(file *f, const table *t, unsigned id, const char *what) {
    int err = 0;
    if (field(f, t, id, 1, &err))
        return bad(f, "%s not allowed", what);
    return err;
}

static inline int element(file *f, vector v, uint32_t i, table *t) {
    size_t pos = v.pos + (size_t)i * 4;
    uint64_t to = (uint64_t)pos + u32(f, pos);
    if (to > f->n)
        return bad(f, "a table lies outside the file");
    return open_table(f, (size_t)to, t);
}

#endif
