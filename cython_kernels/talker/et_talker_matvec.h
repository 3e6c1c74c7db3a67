/* The talker by et_matvec's products: q4_0 and q8_0 models on CPUs with AVX-512 VNNI. */
#ifndef ET_TALKER_MATVEC_H
#define ET_TALKER_MATVEC_H

#include "et_talker.h"

/* Load the model and compute once to warm up. Returns ET_OK with *out NULL where the file or the CPU is not for this;
 * ET_E_ARG, ET_E_MEMORY or ET_E_BACKEND with a message in err. Keys and values are half floats. */
int et_talker_matvec_create(const et_talker_config *config, et_talker **out, char *err, size_t err_size);

#endif
