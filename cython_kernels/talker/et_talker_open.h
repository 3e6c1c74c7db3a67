/* The talker of a file, by what computes it fastest here. */
#ifndef ET_TALKER_OPEN_H
#define ET_TALKER_OPEN_H

#include "et_talker.h"

/* Load the model and compute once to warm up. Returns ET_OK, ET_E_ARG (the file is not such a model), ET_E_MEMORY or
 * ET_E_BACKEND, with a message in err. Freed by its own `free`. */
int et_talker_open(const et_talker_config *config, et_talker **out, char *err, size_t err_size);

#endif
