/* See et_talker_attend.h. */
#include "et_talker_attend.h"

#include <math.h>
#include <stddef.h>

enum { LANES = 16, MAX_DIM = 256 };

#if defined(__x86_64__)
#include "et_exp512.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

bool et_talker_attend_usable(int head_dim)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
        && __builtin_cpu_supports("avx512dq") && head_dim % (2 * LANES) == 0 && head_dim <= MAX_DIM;
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

/* Of one head over the keys of `positions` positions, softmax included. */
AVX512 static void weigh(const float *q, const uint16_t *keys, int positions, int dim, float *scores)
{
    const __m512 scale = _mm512_set1_ps(1.0f / sqrtf((float)dim));
    float top = -INFINITY;
    for (int p = 0; p < positions; p++, keys += dim) {
        __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
        for (int j = 0; j < dim; j += 2 * LANES) {
            even = _mm512_fmadd_ps(_mm512_loadu_ps(q + j), halves(keys + j), even);
            odd = _mm512_fmadd_ps(_mm512_loadu_ps(q + j + LANES), halves(keys + j + LANES), odd);
        }
        scores[p] = _mm512_reduce_add_ps(_mm512_add_ps(even, odd));
        top = scores[p] > top ? scores[p] : top;
    }
    for (int p = positions; p % LANES; p++)
        scores[p] = -INFINITY;
    __m512 total = _mm512_setzero_ps(), most = _mm512_set1_ps(top);
    for (int p = 0; p < positions; p += LANES) {
        __m512 w = et_exp512(_mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(scores + p), most), scale));
        total = _mm512_add_ps(total, w);
        _mm512_storeu_ps(scores + p, w);
    }
    const __m512 share = _mm512_set1_ps(1.0f / _mm512_reduce_add_ps(total));
    for (int p = 0; p < positions; p += LANES)
        _mm512_storeu_ps(scores + p, _mm512_mul_ps(_mm512_loadu_ps(scores + p), share));
}

/* The weighted sum of values, `lines` times 16 of their dimensions: as many as stay in registers. */
AVX512 static inline __attribute__((always_inline)) void
mix(const float *scores, const uint16_t *values, int positions, int dim, int lines, float *dst)
{
    __m512 sum[8];
    for (int j = 0; j < lines; j++)
        sum[j] = _mm512_setzero_ps();
    for (int p = 0; p < positions; p++, values += dim) {
        __m512 w = _mm512_set1_ps(scores[p]);
        for (int j = 0; j < lines; j++)
            sum[j] = _mm512_fmadd_ps(w, halves(values + j * LANES), sum[j]);
    }
    for (int j = 0; j < lines; j++)
        _mm512_storeu_ps(dst + j * LANES, sum[j]);
}

AVX512 static void mix_head(const float *scores, const uint16_t *values, int positions, int dim, float *dst)
{
    int at = 0;
    for (; at + 8 * LANES <= dim; at += 8 * LANES)
        mix(scores, values + at, positions, dim, 8, dst + at);
    for (; at < dim; at += 2 * LANES)
        mix(scores, values + at, positions, dim, 2, dst + at);
}

AVX512 void et_talker_attend(const et_talker_attention *a, const float *qkv, int row_stride, int first, int n,
                             float *out, int ith, int nth)
{
    const int dim = a->head_dim, group = a->heads / a->kv_heads;
    float *scores = a->scores + (size_t)ith * (size_t)((a->context + LANES - 1) / LANES * LANES);
    float head[MAX_DIM];
    /* A kv head and its queries belong to one thread, so nothing is shared. */
    for (int h = ith; h < a->kv_heads; h += nth) {
        uint16_t *keys = a->keys + (size_t)h * a->context * dim, *values = a->values + (size_t)h * a->context * dim;
        for (int i = 0; i < n; i++) {
            const float *q = qkv + (size_t)i * row_stride, *k = q + (size_t)(a->heads + h) * dim;
            const size_t at = (size_t)(first + i) * dim;
            norm_rotate(a, k, a->k_norm, i, head);
            narrow(head, dim, keys + at);
            narrow(k + (size_t)a->kv_heads * dim, dim, values + at);
            for (int j = h * group; j < (h + 1) * group; j++) {
                norm_rotate(a, q + (size_t)j * dim, a->q_norm, i, head);
                weigh(head, keys, first + i + 1, dim, scores);
                mix_head(scores, values, first + i + 1, dim, out + ((size_t)i * a->heads + j) * dim);
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
