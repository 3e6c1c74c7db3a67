/* Structural check of a TFLite file, before LiteRT follows its offsets without looking. */
#ifndef ET_TFLITE_CHECK_H
#define ET_TFLITE_CHECK_H

#include <stddef.h>

/* Every offset, index, size and count of the file, and the flow of its graphs. Only operators that a codec
 * decoder may need are allowed. Returns 0, or -1 with what is wrong in error[size]. */
int et_tflite_check(const char *path, char *error, size_t size);

#endif
