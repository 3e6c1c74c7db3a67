/* See et_talker_open.h. */
#include "et_talker_open.h"

#include <llama.h>

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
