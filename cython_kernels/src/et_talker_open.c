/* See et_talker_open.h. */
#include "et_talker_open.h"

#include "et_talker_llama.h"
#include "et_talker_matvec.h"

int et_talker_open(const et_talker_config *config, et_talker **out, char *err, size_t err_size)
{
    *out = NULL;
    if (config->own_products && config->n_gpu_layers == 0) {
        int rc = et_talker_matvec_create(config, out, err, err_size);
        if (rc || *out)
            return rc;
    }
    return et_llama_create(config, out, err, err_size);
}
