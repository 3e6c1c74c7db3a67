/* Products of q4_0 and q8_0 matrices with one, two or four vectors, for CPUs with AVX-512 VNNI, because ggml's own
 * products reach half of the memory's speed there. 16 rows lie side by side, so that a product reads one stream. */
#ifndef ET_MATVEC_H
#define ET_MATVEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most values of a vector, and the most vectors at once. */
#define ET_MATVEC_COLUMNS 16384
#define ET_MATVEC_VECTORS 4

/* Whether et_isa allows the instructions and the matrix has the shape: rows in 16s, columns in 64s. */
bool et_matvec_usable(int64_t rows, int64_t columns);

/* Rearrange a matrix of ggml's blocks, q8_0 (wide) or q4_0; the size stays the same. dst is 64-byte aligned. */
void et_matvec_pack(const uint8_t *blocks, int rows, int columns, bool wide, uint8_t *dst);

typedef struct {
    const uint8_t *packed;
    int rows, columns;
    bool wide;              /* q8_0, not q4_0 */
    const float *norm;      /* [columns]: the vectors are first divided by their root mean square; NULL: they are not */
    float eps;
    bool gated;             /* rows are two halves: the result is silu(first) * second, [rows / 2] */
} et_matvec;

/* Thread ith's share of y = M x (+ add) for n vectors, n being 1, 2 or 4; strides in floats. Vectors are rounded to 8
 * bits in blocks of 32, as ggml does. */
void et_matvec_run(const et_matvec *m, const float *x, size_t x_stride, const float *add, size_t add_stride, float *y,
                   size_t y_stride, int n, int ith, int nth);

#endif
