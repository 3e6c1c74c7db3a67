/* ggml's CPU device, reached through its registry only.
 *
 * ggml comes in two forms: with the CPU code linked in, or with one plug-in for each level of the instruction
 * set, of which the best that this CPU can run is loaded. In the second form there is no CPU library to link
 * with, so nothing here names one. */
#ifndef ET_GGML_CPU_H
#define ET_GGML_CPU_H

#include <ggml-backend.h>
#include <ggml-cpu.h>

typedef struct {
    ggml_backend_dev_t device;
    struct ggml_threadpool *(*threadpool_new)(struct ggml_threadpool_params *params);
    void (*threadpool_free)(struct ggml_threadpool *pool);
    void (*set_threadpool)(ggml_backend_t backend, ggml_threadpool_t pool);
    ggml_backend_set_n_threads_t set_n_threads;
    ggml_backend_dev_get_extra_bufts_t extra_buffer_types; /* NULL: it has none */
} et_ggml_cpu;

/* The CPU device; the first call loads ggml's plug-ins where it has any. NULL when there is no CPU device or
 * it lacks a function, with the reason in err[size]. What it returns lives as long as the process. */
const et_ggml_cpu *et_ggml_cpu_get(char *err, size_t size);

#endif
