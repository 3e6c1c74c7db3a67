/* Whether a model's output is usable. */
#ifndef ET_FINITE_H
#define ET_FINITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* True when no value is NaN or infinite. */
static inline bool et_all_finite(const float *x, int n)
{
    uint32_t bad = 0;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

/* Whether n rows of `width` floats have no such value. Rows are checked before they are fed, because ggml's rounding to
 * 8 bits turns NaN and infinity into numbers. */
static inline bool et_rows_finite(const float *rows, int n, int width)
{
    for (int i = 0; i < n; i++)
        if (!et_all_finite(rows + (size_t)i * (size_t)width, width))
            return false;
    return true;
}

#endif
