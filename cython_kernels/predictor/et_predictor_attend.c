/* Attention over at most 32 positions: a handful of short vectors, done in one pass instead of ten ggml nodes,
 * each of which would cost a barrier between the threads. */
#include <math.h>
#include <string.h>

#include "et_predictor_parts.h"

#define LANES 16

static float dot(const float *a, const float *b, int n)
{
    float lane[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return lane[0] + sum;
}

/* RMS norm of one head, then rotation by the position: halves of the head form the pairs. */
static void norm_rotate(const et_predictor_model *m, const float *x, const float *weight, int position, float *dst)
{
    int dim = m->shape.head_dim, half = dim / 2;
    float scale = 1.0f / sqrtf(dot(x, x, dim) / (float)dim + m->shape.eps);
    const float *c = m->cosine + (size_t)position * half, *s = m->sine + (size_t)position * half;
    for (int j = 0; j < half; j++) {
        float a = x[j] * scale * weight[j], b = x[j + half] * scale * weight[j + half];
        dst[j] = a * c[j] - b * s[j];
        dst[j + half] = b * c[j] + a * s[j];
    }
}

static void attend_head(const et_predictor_model *m, const float *q, const float *keys, const float *values,
                        int positions, float *dst)
{
    int dim = m->shape.head_dim;
    float weight[ET_MAX_GROUPS], top = -INFINITY, total = 0, scale = 1.0f / sqrtf((float)dim);
    for (int p = 0; p < positions; p++) {
        weight[p] = dot(q, keys + (size_t)p * dim, dim) * scale;
        top = fmaxf(top, weight[p]);
    }
    for (int p = 0; p < positions; p++) {
        weight[p] = expf(weight[p] - top);
        total += weight[p];
    }
    memset(dst, 0, (size_t)dim * sizeof *dst);
    for (int p = 0; p < positions; p++) {
        float w = weight[p] / total;
        const float *v = values + (size_t)p * dim;
        for (int j = 0; j < dim; j++)
            dst[j] += w * v[j];
    }
}

void et_predictor_attend(struct ggml_tensor *dst, int ith, int nth, void *attention)
{
    const et_attention *a = attention;
    const et_predictor_model *m = a->model;
    const et_predictor_shape *s = &m->shape;
    const struct ggml_tensor *qkv = dst->src[0];
    int dim = s->head_dim, share = s->heads / s->kv_heads;
    int n = (int)qkv->ne[1], rows = (int)dst->ne[1];
    float q[ET_MAX_HEAD_DIM];

    /* A kv head and its queries belong to one thread, so nothing is shared. */
    for (int h = ith; h < s->kv_heads; h += nth) {
        float *keys = a->layer->k_cache + (size_t)h * s->groups * dim;
        float *values = a->layer->v_cache + (size_t)h * s->groups * dim;
        for (int i = 0; i < n; i++) {
            int position = a->first_position + i;
            const float *in = (const float *)((const char *)qkv->data + (size_t)i * qkv->nb[1]);
            const float *k = in + (size_t)(s->heads + h) * dim, *v = k + (size_t)s->kv_heads * dim;
            norm_rotate(m, k, a->layer->k_norm, position, keys + (size_t)position * dim);
            memcpy(values + (size_t)position * dim, v, (size_t)dim * sizeof *v);
            if (i < n - rows)
                continue;
            float *out = (float *)((char *)dst->data + (size_t)(i - (n - rows)) * dst->nb[1]);
            for (int head = h * share; head < (h + 1) * share; head++) {
                norm_rotate(m, in + (size_t)head * dim, a->layer->q_norm, position, q);
                attend_head(m, q, keys, values, position + 1, out + (size_t)head * dim);
            }
        }
    }
}
