/* Whether a model's output is usable. */
#ifndef ET_FINITE_H
#define ET_FINITE_H

#include <stdbool.h>
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

#endif
