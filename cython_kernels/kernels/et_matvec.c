/* See et_matvec.h. */
#include "et_matvec.h"

#include <math.h>
#include <string.h>

enum {
    LANES = 16,             /* rows side by side */
    BLOCK = 32,             /* values under one scale */
    CHUNK = 2 * BLOCK,      /* columns of a tile: of 2 blocks the 16 scales each, then the 16 * 32 values each */
    Q4_0 = 2 + BLOCK / 2,   /* bytes of ggml's block: a half float, then values i and i + 16 in one byte */
    Q8_0 = 2 + BLOCK,       /* the same with a byte for each */
    HEAD = 2 * LANES * 2,   /* the scales */
};

static int nibble(const uint8_t *block, int i)
{
    return i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4;
}

static int tile_bytes(bool wide)
{
    return 2 * LANES * (wide ? Q8_0 : Q4_0);
}

/* The values of one lane of a block. Bytes are told apart from signs by 128: the instruction takes weights without. */
static void pack_lane(const uint8_t *block, bool wide, uint8_t *dst)
{
    for (int k = 0; k < (wide ? BLOCK : BLOCK / 2); k++, dst += k % 4 ? 1 : 64 - 3) {
        /* Four neighbours of a row make up a lane: of 4 bits the lower halves, then the four after them. */
        int at = 8 * (k / 4) + k % 4;
        *dst = wide ? block[2 + k] ^ 128 : (uint8_t)(nibble(block, at) | nibble(block, at + 4) << 4);
    }
}

void et_matvec_pack(const uint8_t *blocks, int rows, int columns, bool wide, uint8_t *dst)
{
    const int block_bytes = wide ? Q8_0 : Q4_0, tile = tile_bytes(wide), part = (tile - HEAD) / 2;
    const size_t row_bytes = (size_t)(columns / BLOCK * block_bytes);
    for (int group = 0; group < rows / LANES; group++) {
        for (int chunk = 0; chunk < columns / CHUNK; chunk++, dst += tile) {
            for (int half = 0; half < 2; half++) {
                for (int lane = 0; lane < LANES; lane++) {
                    const uint8_t *block = blocks + (size_t)(group * LANES + lane) * row_bytes
                        + (size_t)(2 * chunk + half) * (size_t)block_bytes;
                    memcpy(dst + (half * LANES + lane) * 2, block, 2);
                    pack_lane(block, wide, dst + HEAD + half * part + lane * 4);
                }
            }
        }
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

#include "et_exp512.h"
#include "et_isa.h"

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))

bool et_matvec_usable(int64_t rows, int64_t columns)
{
    return et_isa() >= ET_ISA_AVX512_VNNI && rows % LANES == 0 && columns % CHUNK == 0
        && columns <= ET_MATVEC_COLUMNS;
}

typedef struct {
    int8_t values[ET_MATVEC_COLUMNS];
    float scale[ET_MATVEC_COLUMNS / BLOCK];
    int32_t offset[ET_MATVEC_COLUMNS / BLOCK];  /* -8 or -128 times the block's sum: no weight is stored below 0 */
    char apart[17 * 64];    /* or the vectors' values would lie a multiple of 4096 bytes apart, in the same cache sets */
} rounded;

VNNI static void round_vector(const et_matvec *m, const float *x, rounded *r)
{
    __m512 factor = _mm512_set1_ps(1.0f);
    if (m->norm) {
        __m512d sum = _mm512_setzero_pd();
        for (int i = 0; i < m->columns; i += 8) {
            __m512d v = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
            sum = _mm512_fmadd_pd(v, v, sum);
        }
        factor = _mm512_set1_ps(1.0f / sqrtf((float)(_mm512_reduce_add_pd(sum) / m->columns) + m->eps));
    }
    for (int b = 0; b < m->columns / BLOCK; b++) {
        __m512 v0 = _mm512_loadu_ps(x + b * BLOCK), v1 = _mm512_loadu_ps(x + b * BLOCK + LANES);
        if (m->norm) {
            v0 = _mm512_mul_ps(_mm512_mul_ps(v0, factor), _mm512_loadu_ps(m->norm + b * BLOCK));
            v1 = _mm512_mul_ps(_mm512_mul_ps(v1, factor), _mm512_loadu_ps(m->norm + b * BLOCK + LANES));
        }
        float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v0), _mm512_abs_ps(v1)));
        /* A vector that is not finite must not look like one, and what is next to zero has no inverse. */
        const bool finite = most <= 3.4e38f
            && !(_mm512_cmp_ps_mask(v0, v0, _CMP_UNORD_Q) | _mm512_cmp_ps_mask(v1, v1, _CMP_UNORD_Q));
        const __mmask16 used = finite && most > 1e-36f ? 0xffff : 0;
        const __m512 inverse = _mm512_set1_ps(used ? 127.0f / most : 0.0f);
        __m512i i0 = _mm512_maskz_cvtps_epi32(used, _mm512_mul_ps(v0, inverse));
        __m512i i1 = _mm512_maskz_cvtps_epi32(used, _mm512_mul_ps(v1, inverse));
        _mm_store_si128((__m128i *)(r->values + b * BLOCK), _mm512_cvtsepi32_epi8(i0));
        _mm_store_si128((__m128i *)(r->values + b * BLOCK + LANES), _mm512_cvtsepi32_epi8(i1));
        r->scale[b] = finite ? most / 127.0f : NAN;
        r->offset[b] = (m->wide ? -128 : -8) * _mm512_reduce_add_epi32(_mm512_add_epi32(i0, i1));
    }
}

/* The weights of one block of 16 rows as 8 lines of bytes: of each row four neighbours. */
VNNI static inline __attribute__((always_inline)) void load_block(const uint8_t *values, bool wide, __m512i *line)
{
    const __m512i low = _mm512_set1_epi8(15);
    for (int j = 0; j < 4; j++) {
        if (wide) {
            line[2 * j] = _mm512_load_si512(values + 2 * j * 64);
            line[2 * j + 1] = _mm512_load_si512(values + (2 * j + 1) * 64);
        } else {
            const __m512i both = _mm512_load_si512(values + j * 64);
            line[2 * j] = _mm512_and_si512(both, low);
            line[2 * j + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        }
    }
}

/* Four neighbours of a vector; all eight of a block copied at once would go through memory. */
VNNI static inline __m512i four(const rounded *r, int at)
{
    int32_t v;
    memcpy(&v, r->values + at, sizeof v);
    return _mm512_set1_epi32(v);
}

/* One block of 16 rows times one vector, as floats without the rows' scales. */
VNNI static inline __attribute__((always_inline)) __m512 block_product(const __m512i *line, const rounded *r, int b)
{
    __m512i even = _mm512_set1_epi32(r->offset[b]), odd = _mm512_setzero_si512();
    for (int j = 0; j < 4; j++) {
        even = _mm512_dpbusd_epi32(even, line[2 * j], four(r, b * BLOCK + 8 * j));
        odd = _mm512_dpbusd_epi32(odd, line[2 * j + 1], four(r, b * BLOCK + 8 * j + 4));
    }
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(even, odd)), _mm512_set1_ps(r->scale[b]));
}

VNNI static inline __attribute__((always_inline)) void
group_sums(const et_matvec *m, int group, const rounded *r, int n, bool wide, __m512 *sum)
{
    const int tile = tile_bytes(wide), part = (tile - HEAD) / 2;
    const uint8_t *at = m->packed + (size_t)group * (size_t)(m->columns / CHUNK) * (size_t)tile;
    __m512 s[ET_MATVEC_VECTORS];
    for (int i = 0; i < n; i++)
        s[i] = _mm512_setzero_ps();
    for (int c = 0; c < m->columns / CHUNK; c++, at += tile) {
        for (int half = 0; half < 2; half++) {
            const __m512 scale = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(at + half * LANES * 2)));
            __m512i line[8];
            load_block(at + HEAD + half * part, wide, line);
            for (int i = 0; i < n; i++)
                s[i] = _mm512_fmadd_ps(block_product(line, &r[i], 2 * c + half), scale, s[i]);
        }
    }
    for (int i = 0; i < n; i++)
        sum[i] = s[i];
}

/* Of 16 rows; each kind and number of vectors is compiled by itself. */
VNNI static void group_product(const et_matvec *m, int group, const rounded *r, int n, __m512 *sum)
{
    switch (m->wide ? -n : n) {
    case 1: group_sums(m, group, r, 1, false, sum); break;
    case 2: group_sums(m, group, r, 2, false, sum); break;
    case 4: group_sums(m, group, r, 4, false, sum); break;
    case -1: group_sums(m, group, r, 1, true, sum); break;
    case -2: group_sums(m, group, r, 2, true, sum); break;
    case -4: group_sums(m, group, r, 4, true, sum); break;
    }
}

VNNI void et_matvec_run(const et_matvec *m, const float *x, size_t x_stride, const float *add, size_t add_stride,
                        float *y, size_t y_stride, int n, int ith, int nth)
{
    _Alignas(64) rounded r[ET_MATVEC_VECTORS];
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 sum[ET_MATVEC_VECTORS], second[ET_MATVEC_VECTORS];
    const int groups = m->rows / LANES / (m->gated ? 2 : 1);
    for (int i = 0; i < n; i++)
        round_vector(m, x + (size_t)i * x_stride, &r[i]);
    for (int g = groups * ith / nth; g < groups * (ith + 1) / nth; g++) {
        group_product(m, g, r, n, sum);
        if (m->gated)
            group_product(m, groups + g, r, n, second);
        for (int i = 0; i < n; i++) {
            float *out = y + (size_t)i * y_stride + g * LANES;
            if (m->gated) {
                __m512 below = _mm512_add_ps(one, et_exp512(_mm512_sub_ps(_mm512_setzero_ps(), sum[i])));
                _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_div_ps(sum[i], below), second[i]));
                continue;
            }
            if (add)
                sum[i] = _mm512_add_ps(sum[i], _mm512_loadu_ps(add + (size_t)i * add_stride + g * LANES));
            _mm512_storeu_ps(out, sum[i]);
        }
    }
}
#else
bool et_matvec_usable(int64_t rows, int64_t columns)
{
    return false;
}

void et_matvec_run(const et_matvec *m, const float *x, size_t x_stride, const float *add, size_t add_stride, float *y,
                   size_t y_stride, int n, int ith, int nth)
{
}
#endif
