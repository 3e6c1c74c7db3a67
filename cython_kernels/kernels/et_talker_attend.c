/* See et_talker_attend.h. */
#include "et_talker_attend.h"

#include <math.h>
#include <stddef.h>

enum { LANES = 16, MAX_DIM = 256 };

#if defined(__x86_64__)
#include "et_exp512.h"
#include "et_isa.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

bool et_talker_attend_usable(int head_dim)
{
    return et_isa() >= ET_ISA_AVX512 && head_dim % (2 * LANES) == 0 && head_dim <= MAX_DIM;
}

AVX512 static inline __m512 halves(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}

AVX512 static void norm_rotate(const et_talker_attention *a, const float *x, const float *weight, int row, float *dst)
{
    const int half = a->head_dim / 2;
    const float *c = a->cosine + (size_t)row * half, *s = a->sine + (size_t)row * half;
    __m512 sum = _mm512_setzero_ps();
    for (int j = 0; j < a->head_dim; j += LANES) {
        __m512 v = _mm512_loadu_ps(x + j);
        sum = _mm512_fmadd_ps(v, v, sum);
    }
    const __m512 scale = _mm512_set1_ps(1.0f / sqrtf(_mm512_reduce_add_ps(sum) / (float)a->head_dim + a->eps));
    for (int j = 0; j < half; j += LANES) {
        __m512 first = _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + j), scale), _mm512_loadu_ps(weight + j));
        __m512 second = _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + half + j), scale),
                                      _mm512_loadu_ps(weight + half + j));
        __m512 cosine = _mm512_loadu_ps(c + j), sine = _mm512_loadu_ps(s + j);
        _mm512_storeu_ps(dst + j, _mm512_fmsub_ps(first, cosine, _mm512_mul_ps(second, sine)));
        _mm512_storeu_ps(dst + half + j, _mm512_fmadd_ps(second, cosine, _mm512_mul_ps(first, sine)));
    }
}

AVX512 static void narrow(const float *x, int n, uint16_t *dst)
{
    for (int j = 0; j < n; j += LANES)
        _mm256_storeu_si256((__m256i *)(dst + j), _mm512_cvtps_ph(_mm512_loadu_ps(x + j), _MM_FROUND_TO_NEAREST_INT));
}

/* Scores of n heads over keys in blocks of 16 positions [dim][16]: a line is a value of each, so nothing is summed
 * across lanes. */
AVX512 static inline __attribute__((always_inline)) void
score(const float (*q)[MAX_DIM], const uint16_t *keys, int positions, int dim, int n, float *const *scores)
{
    for (int p = 0; p < positions; p += LANES, keys += (size_t)dim * LANES) {
        __m512 sum[2][2];
        for (int i = 0; i < n; i++)
            sum[i][0] = sum[i][1] = _mm512_setzero_ps();
        for (int j = 0; j < dim; j += 2) {
            const __m512 even = halves(keys + j * LANES), odd = halves(keys + (j + 1) * LANES);
            for (int i = 0; i < n; i++) {
                sum[i][0] = _mm512_fmadd_ps(_mm512_set1_ps(q[i][j]), even, sum[i][0]);
                sum[i][1] = _mm512_fmadd_ps(_mm512_set1_ps(q[i][j + 1]), odd, sum[i][1]);
            }
        }
        for (int i = 0; i < n; i++)
            _mm512_storeu_ps(scores[i] + p, _mm512_add_ps(sum[i][0], sum[i][1]));
    }
}

/* Scores to weights that sum up to 1. */
AVX512 static void soften(float *scores, int positions, int dim)
{
    const __m512 scale = _mm512_set1_ps(1.0f / sqrtf((float)dim)), least = _mm512_set1_ps(-INFINITY);
    const __mmask16 used = (__mmask16)((2u << (positions - 1) % LANES) - 1);
    float *last = scores + (positions - 1) / LANES * LANES;
    /* Positions after the last one weigh nothing, whatever lies there. */
    _mm512_storeu_ps(last, _mm512_mask_loadu_ps(least, used, last));
    __m512 top = least, total = _mm512_setzero_ps();
    for (int p = 0; p < positions; p += LANES)
        top = _mm512_max_ps(top, _mm512_loadu_ps(scores + p));
    top = _mm512_set1_ps(_mm512_reduce_max_ps(top));
    for (int p = 0; p < positions; p += LANES) {
        __m512 w = et_exp512(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + p), top), scale));
        total = _mm512_add_ps(total, w);
        _mm512_storeu_ps(scores + p, w);
    }
    const __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(total));
    for (int p = 0; p < positions; p += LANES)
        _mm512_storeu_ps(scores + p, _mm512_mul_ps(_mm512_loadu_ps(scores + p), share));
}

/* Weighted sums of `lines` times 16 dimensions of the values, for n heads: as many as stay in registers. */
AVX512 static inline __attribute__((always_inline)) void
mix(float *const *scores, const uint16_t *values, int positions, int dim, int n, int lines, float *dst)
{
    __m512 sum[2][8];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < lines; j++)
            sum[i][j] = _mm512_setzero_ps();
    for (int p = 0; p < positions; p++, values += dim) {
        for (int j = 0; j < lines; j++) {
            const __m512 value = halves(values + j * LANES);
            for (int i = 0; i < n; i++)
                sum[i][j] = _mm512_fmadd_ps(_mm512_set1_ps(scores[i][p]), value, sum[i][j]);
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < lines; j++)
            _mm512_storeu_ps(dst + i * dim + j * LANES, sum[i][j]);
}

/* n query heads that share keys and values; dst is [n][dim]. */
AVX512 static inline __attribute__((always_inline)) void
attend(const float (*q)[MAX_DIM], const uint16_t *keys, const uint16_t *values, int positions, int dim, int n,
       float *const *scores, float *dst)
{
    score(q, keys, positions, dim, n, scores);
    for (int i = 0; i < n; i++)
        soften(scores[i], positions, dim);
    int at = 0;
    for (; at + 8 * LANES <= dim; at += 8 * LANES)
        mix(scores, values + at, positions, dim, n, 8, dst + at);
    for (; at < dim; at += 2 * LANES)
        mix(scores, values + at, positions, dim, n, 2, dst + at);
}

AVX512 static void attend_one(const float (*q)[MAX_DIM], const uint16_t *keys, const uint16_t *values, int positions,
                              int dim, float *const *scores, float *dst)
{
    attend(q, keys, values, positions, dim, 1, scores, dst);
}

AVX512 static void attend_two(const float (*q)[MAX_DIM], const uint16_t *keys, const uint16_t *values, int positions,
                              int dim, float *const *scores, float *dst)
{
    attend(q, keys, values, positions, dim, 2, scores, dst);
}

AVX512 void et_talker_attend(const et_talker_attention *a, const float *qkv, int row_stride, int first, int n,
                             float *out, int ith, int nth)
{
    const int dim = a->head_dim, group = a->heads / a->kv_heads;
    const size_t head = (size_t)a->context * (size_t)dim;
    float *scores[2] = {a->scores + (size_t)(2 * ith) * (size_t)a->context,
                        a->scores + (size_t)(2 * ith + 1) * (size_t)a->context};
    float q[2][MAX_DIM];
    uint16_t narrowed[MAX_DIM];
    /* A kv head and its queries belong to one thread, so nothing is shared. */
    for (int h = ith; h < a->kv_heads; h += nth) {
        uint16_t *keys = a->keys + (size_t)h * head, *values = a->values + (size_t)h * head;
        for (int i = 0; i < n; i++) {
            const float *in = qkv + (size_t)i * row_stride, *k = in + (size_t)(a->heads + h) * dim;
            const int position = first + i;
            uint16_t *block = keys + (size_t)(position / LANES) * (size_t)dim * LANES + position % LANES;
            norm_rotate(a, k, a->k_norm, i, q[0]);
            narrow(q[0], dim, narrowed);
            for (int j = 0; j < dim; j++)
                block[j * LANES] = narrowed[j];
            narrow(k + (size_t)a->kv_heads * dim, dim, values + (size_t)position * (size_t)dim);
            for (int j = h * group; j < (h + 1) * group; j += 2) {
                const bool two = j + 1 < (h + 1) * group;
                for (int m = 0; m <= two; m++)
                    norm_rotate(a, in + (size_t)(j + m) * dim, a->q_norm, i, q[m]);
                (two ? attend_two : attend_one)(q, keys, values, position + 1, dim, scores,
                                                out + ((size_t)i * a->heads + j) * dim);
            }
        }
    }
}
#else
bool et_talker_attend_usable(int head_dim)
{
    return false;
}

void et_talker_attend(const et_talker_attention *a, const float *qkv, int row_stride, int first, int n, float *out,
                      int ith, int nth)
{
}
#endif
