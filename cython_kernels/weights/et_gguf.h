/* A GGUF file opened for checking: every key and tensor is asked for by name, type and shape, and what is
 * wrong is named. libllama and ggml abort the process on some malformed files; these checks come first.
 *
 * Functions return 0, or -1 with a message in the file's err buffer. */
#ifndef ET_GGUF_H
#define ET_GGUF_H

#include <ggml.h>
#include <gguf.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    struct gguf_context *gguf;
    int fd;
    uint64_t size;          /* bytes of the file */
    char *err;
    size_t err_size;
} et_gguf;

/* Open and check that every tensor's data lies inside the file. Messages of this and of all calls below go to
 * err. On failure nothing needs closing. */
int et_gguf_open(et_gguf *g, const char *path, char *err, size_t err_size);
void et_gguf_close(et_gguf *g);

/* Set the message; always -1. */
int et_gguf_fail(et_gguf *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Value of a key; integers of any width are taken. */
int et_gguf_expect_str(et_gguf *g, const char *key, const char *expected);
int et_gguf_int(et_gguf *g, const char *key, int lowest, int highest, int *value);
int et_gguf_float(et_gguf *g, const char *key, float lowest, float highest, float *value);

/* Tensor of shape [rows, columns] (rows 0: a vector). `columns` is ggml's ne[0], values of one row. */
typedef struct {
    const char *name;
    enum ggml_type type;
    uint64_t offset;        /* in the file */
    size_t size;            /* bytes */
} et_gguf_tensor;

int et_gguf_find(et_gguf *g, const char *name, int64_t rows, int64_t columns, et_gguf_tensor *t);
/* Read all of the tensor's bytes. */
int et_gguf_read(et_gguf *g, const et_gguf_tensor *t, void *dst);
/* Read a vector, which must be f32. */
int et_gguf_floats(et_gguf *g, const char *name, int n, float *dst);

#endif
