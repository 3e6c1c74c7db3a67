/* Attention of one layer of the talker over keys and values in half floats, for CPUs with AVX-512. */
#ifndef ET_TALKER_ATTEND_H
#define ET_TALKER_ATTEND_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int heads, kv_heads, head_dim;
    int context;                        /* positions, a multiple of 16 */
    float eps;
    const float *q_norm, *k_norm;       /* [head_dim] */
    uint16_t *keys;                     /* [kv_heads][context / 16][head_dim][16] */
    uint16_t *values;                   /* [kv_heads][context][head_dim] */
    const float *cosine, *sine;         /* of each row's position [rows][head_dim / 2] */
    float *scores;                      /* [threads][2][context] */
} et_talker_attention;

/* Whether et_isa allows the instructions and the heads have a size for them. */
bool et_talker_attend_usable(int head_dim);

/* Thread ith's share. qkv are n rows of heads, kv heads of keys and kv heads of values, row_stride floats apart; they
 * are the positions from `first` on. Every head of queries and keys is normed, then rotated by its position, halves of
 * a head forming the pairs. Writes n rows [heads][head_dim]. */
void et_talker_attend(const et_talker_attention *a, const float *qkv, int row_stride, int first, int n, float *out,
                      int ith, int nth);

#endif
