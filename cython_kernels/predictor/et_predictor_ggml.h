/* The code predictor as prebuilt ggml graphs: one for each codebook, nothing is built or allocated at run time. */
#ifndef ET_PREDICTOR_GGML_H
#define ET_PREDICTOR_GGML_H

#include <stdbool.h>
#include <stddef.h>

#include "et_predictor.h"

/* Load predictor.gguf and run one frame to warm up. weight_file: rearranged weights are kept in files of this name with
 * a number appended, and mapped from there; NULL: the weights stay in memory. own_products: et_matvec computes q4_0 and
 * q8_0 where this CPU has the instructions, not ggml.
 * Returns ET_OK, ET_E_ARG (the file is not such a model), ET_E_MEMORY or ET_E_BACKEND, with a message in err. */
int et_ggml_predictor_create(const char *path, int threads, const char *weight_file, bool own_products,
                             et_predictor **out, char *err, size_t err_size);
void et_ggml_predictor_free(et_predictor *p);

/* Hidden size inside the predictor, and layers. */
int et_ggml_predictor_hidden(const et_predictor *p);
int et_ggml_predictor_layers(const et_predictor *p);
/* Bytes of all weights; of the weights in a repacked layout; of the weights that lie in a file of their own, not in
 * anonymous memory. */
size_t et_ggml_predictor_weight_bytes(const et_predictor *p);
size_t et_ggml_predictor_repacked_bytes(const et_predictor *p);
size_t et_ggml_predictor_file_bytes(const et_predictor *p);

#endif
