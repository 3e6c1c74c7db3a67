/* See et_talker_open.h. */
#include "et_talker_open.h"

#include <llama.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/et_ggml_cpu.h"
#include "et_talker_llama.h"
#include "et_talker_matvec.h"

int et_talker_open(const et_talker_config *config, et_talker **out, char *err, size_t err_size)
{
    *out = NULL;
    /* Finding the CPU device loads the plug-ins, those of GPUs too. */
    if (config->own_products && et_ggml_cpu_get(err, err_size)
        && (config->n_gpu_layers == 0 || !llama_supports_gpu_offload())) {
        int rc = et_talker_matvec_create(config, out, err, err_size);
        if (rc || *out)
            return rc;
    }
    return et_llama_create(config, out, err, err_size);
}

int et_talker_warm_up(et_talker *t, int rows)
{
    rows = rows < t->max_context ? rows : t->max_context;
    float *zeros = calloc((size_t)rows * (size_t)t->hidden, sizeof *zeros);
    if (!zeros)
        return ET_E_MEMORY;
    int rc = t->feed(t, zeros, rows);
    if (rc == ET_OK && rows < t->max_context) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        rc = t->feed(t, zeros, 1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        t->warm_ns = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    }
    free(zeros);
    t->reset(t);
    return rc;
}
