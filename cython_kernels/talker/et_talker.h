/* The talker language model: embedding rows in, hidden state and codebook-0 logits out. */
#ifndef ET_TALKER_H
#define ET_TALKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/et_types.h"

typedef struct et_talker et_talker;

struct et_talker {
    void *self;
    int hidden;       /* floats of a row and of the hidden state */
    int vocab;        /* logits */
    int max_context;  /* positions that fit */
    int n_past;       /* positions fed since the last reset */
    bool own_products;  /* et_matvec computes it, not libllama */
    size_t file_bytes;  /* weights that lie in a file of their own, not in anonymous memory */
    int64_t warm_ns;  /* time of a step of one row, measured while loading; 0: not known */

    /* Forget every position. */
    int (*reset)(et_talker *t);
    /* Forget every position from n on, n being at most those fed; ET_OK, or ET_E_BACKEND when that cannot be done
     * and everything has to be fed again. NULL: this talker never can. */
    int (*rewind)(et_talker *t, int n);
    /* Append n rows [n][hidden]; afterwards hidden_out/logits are those of the last row.
     * Returns ET_OK, ET_E_CONTEXT (nothing was appended) or ET_E_BACKEND. */
    int (*feed)(et_talker *t, const float *rows, int n);
    /* Hidden state after the final norm [hidden] and logits [vocab] of the last row fed;
     * valid until the next feed or reset. */
    const float *(*hidden_out)(et_talker *t);
    const float *(*logits)(et_talker *t);
    /* Free everything, the table too. NULL: the talker belongs to somebody else. */
    void (*free)(et_talker *t);
};

typedef struct {
    const char *path;
    int max_context;    /* positions that fit */
    int threads;        /* for one row */
    int threads_batch;  /* for several rows */
    int n_gpu_layers;
    bool use_mmap;
    bool own_products;  /* et_matvec computes it where this CPU and the file allow it, else libllama */
    const char *weight_file;  /* where rearranged weights are kept (an ending is appended); NULL: in memory */
} et_talker_config;

#endif
