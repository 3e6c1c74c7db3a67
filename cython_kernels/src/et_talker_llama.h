/* The talker as a libllama model of architecture qwen3 whose vocabulary is the codec rows. */
#ifndef ET_TALKER_LLAMA_H
#define ET_TALKER_LLAMA_H

#include <stdbool.h>
#include <stddef.h>

#include "et_talker.h"

typedef struct {
    const char *path;
    int max_context;    /* positions that fit */
    int threads;        /* for one row */
    int threads_batch;  /* for several rows */
    int n_gpu_layers;
    bool use_mmap;
    const char *weight_file;  /* where rearranged weights are kept (a number is appended); NULL: in memory */
} et_llama_config;

/* Load the model and decode once to warm up. Returns ET_OK, ET_E_ARG (the file is not such a model),
 * ET_E_MEMORY or ET_E_BACKEND, with a message in err. */
int et_llama_create(const et_llama_config *config, et_talker **out, char *err, size_t err_size);
void et_llama_free(et_talker *t);
/* Positions fed since the last reset. */
int et_llama_n_past(const et_talker *t);
/* Bytes of weights that lie in a file of their own, not in anonymous memory. */
size_t et_llama_file_bytes(const et_talker *t);

#endif
