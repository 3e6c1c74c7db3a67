/* The check of a talker's file before it is loaded: it must hold what a talker needs, and nothing else. */
#ifndef ET_TALKER_FILE_H
#define ET_TALKER_FILE_H

#include <ggml.h>
#include <stddef.h>

typedef struct {
    int hidden, layers, ffn, heads, kv_heads, head_dim, vocab;
    float eps, theta;
    enum ggml_type type;    /* of the first matrix */
} et_talker_shape;

/* Read the sizes and check every tensor's shape, and that no key or tensor says more than is computed. Returns 0, or -1
 * with a message in err: libllama checks much of this itself, but aborts on some of it and does not name all of it. */
int et_talker_check_file(const char *path, et_talker_shape *s, char *err, size_t err_size);

#endif
