/* The talker as a libllama model of architecture qwen3 whose vocabulary is the codec rows. */
#ifndef ET_TALKER_LLAMA_H
#define ET_TALKER_LLAMA_H

#include "et_talker.h"

/* Load the model and decode once to warm up. Returns ET_OK, ET_E_ARG (the file is not such a model),
 * ET_E_MEMORY or ET_E_BACKEND, with a message in err. */
int et_llama_create(const et_talker_config *config, et_talker **out, char *err, size_t err_size);

#endif
