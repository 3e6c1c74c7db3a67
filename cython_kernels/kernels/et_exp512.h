/* exp of 16 floats, for AVX-512. */
#ifndef ET_EXP512_H
#define ET_EXP512_H

#include <immintrin.h>

/* 2^(x log2 e) as 2^n times the Taylor series of 2^f, |f| <= 1/2: within 2.4e-7 of exp; 0 and infinity where floats
 * end, NaN stays NaN. */
__attribute__((target("avx512f"))) static inline __m512 et_exp512(__m512 x)
{
    /* ln(2)^k / k! */
    static const float series[] = {1.0f, 0.693147181f, 0.240226507f, 0.0555041087f, 0.00961812911f, 0.00133335581f,
                                   0.000154035304f};
    const __m512 log2e = _mm512_set1_ps(1.44269504f), rest = _mm512_set1_ps(1.925963033e-8f);
    /* With x second, NaN passes. */
    x = _mm512_min_ps(_mm512_set1_ps(150.0f), _mm512_max_ps(_mm512_set1_ps(-150.0f), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    /* The product and its rounding error, so that large x keep their digits. */
    __m512 f = _mm512_fmadd_ps(x, rest, _mm512_fmsub_ps(x, log2e, n)), sum = _mm512_set1_ps(series[6]);
    for (int i = 5; i >= 0; i--)
        sum = _mm512_fmadd_ps(sum, f, _mm512_set1_ps(series[i]));
    return _mm512_scalef_ps(sum, n);
}

#endif
