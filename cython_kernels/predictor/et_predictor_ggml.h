/* The code predictor as prebuilt ggml graphs: one for each codebook, nothing is built or allocated at run time. */
#ifndef ET_PREDICTOR_GGML_H
#define ET_PREDICTOR_GGML_H

#include <stdbool.h>
#include <stddef.h>

#include "et_predictor.h"

/* Load predictor.gguf and run one frame to warm up. The weights are kept in files (weight_file with a number appended)
 * and mapped from there; NULL: in memory. own_products: q4_0 and q8_0 by et_matvec where this CPU can, not by ggml.
 * Returns ET_OK, ET_E_ARG (the file is not such a model), ET_E_MEMORY or ET_E_BACKEND, with a message in err. */
int et_ggml_predictor_create(const char *path, int threads, const char *weight_file, bool own_products,
                             et_predictor **out, char *err, size_t err_size);
void et_ggml_predictor_free(et_predictor *p);

/* Hidden size inside the predictor, and layers. */
int et_ggml_predictor_hidden(const et_predictor *p);
int et_ggml_predictor_layers(const et_predictor *p);
/* Bytes of all weights, and of those in a repacked layout. */
size_t et_ggml_predictor_weight_bytes(const et_predictor *p);
size_t et_ggml_predictor_repacked_bytes(const et_predictor *p);
/* And of those that lie in a file of their own, not in anonymous memory. */
size_t et_ggml_predictor_file_bytes(const et_predictor *p);

#endif
