/* See et_resample.h. */
#include "et_resample.h"

#include <errno.h>
#include <math.h>
#include <soxr.h>
#include <stdlib.h>
#include <string.h>

int64_t et_resample_length(const et_resample *r, int64_t n)
{
    /* Round half up, in integers. */
    return (2 * n * r->out_rate + r->in_rate) / (2 * (int64_t)r->in_rate);
}

int et_resample_init(et_resample *r, int in_rate, int out_rate, size_t max_in)
{
    memset(r, 0, sizeof *r);
    if (in_rate < 4000 || in_rate > 384000 || out_rate < 4000 || out_rate > 384000 || max_in == 0)
        return -EINVAL;
    r->in_rate = in_rate;
    r->out_rate = out_rate;
    r->max_in = max_in;
    r->max_out = max_in;
    if (in_rate == out_rate)
        return 0;
    /* The filter releases its output in bursts: room for four calls' worth and a filter length. */
    r->max_out = 4 * (size_t)et_resample_length(r, (int64_t)max_in) + 1024;
    r->in = malloc(max_in * sizeof *r->in);
    soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    soxr_error_t error = NULL;
    r->soxr = soxr_create(in_rate, out_rate, 1, &error, &io, &quality, &runtime);
    if (!r->in || error || !r->soxr) {
        et_resample_free(r);
        return -ENOMEM;
    }
    return 0;
}

void et_resample_free(et_resample *r)
{
    if (r->soxr)
        soxr_delete(r->soxr);
    free(r->in);
    memset(r, 0, sizeof *r);
}

int et_resample_reset(et_resample *r)
{
    r->in_total = r->out_total = 0;
    r->dry = false;
    if (r->soxr && soxr_clear(r->soxr))
        return -ENOMEM;
    return 0;
}

size_t et_resample_feed(et_resample *r, const int16_t *in, size_t n, float *out)
{
    float *f = r->soxr ? r->in : out;
    for (size_t i = 0; i < n; i++)
        f[i] = (float)in[i] / 32768.0f;
    r->in_total += (int64_t)n;
    if (!r->soxr) {
        r->out_total += (int64_t)n;
        return n;
    }
    size_t got = 0, used = 0, made;
    /* An empty input is not the end of the stream as long as the pointer is set. */
    do {
        size_t took = 0;
        made = 0;
        if (soxr_process(r->soxr, f + used, n - used, &took, out + got, r->max_out - got, &made))
            break;
        used += took;
        got += made;
        if (!took && !made)
            break;
    } while (used < n && got < r->max_out);
    r->out_total += (int64_t)got;
    return got;
}

size_t et_resample_flush(et_resample *r, float *out)
{
    int64_t left = et_resample_length(r, r->in_total) - r->out_total;
    if (!r->soxr || left <= 0)
        return 0;
    size_t want = left < (int64_t)r->max_out ? (size_t)left : r->max_out;
    size_t made = 0;
    if (!r->dry && (soxr_process(r->soxr, NULL, 0, NULL, out, want, &made) || made == 0))
        r->dry = true;
    if (r->dry) {
        /* The filter may stop a frame short of the exact length. */
        memset(out, 0, want * sizeof *out);
        made = want;
    }
    r->out_total += (int64_t)made;
    return made;
}

static int32_t quantise(float x, double scale)
{
    double v = nearbyint((double)x * scale);
    if (v > scale - 1)
        v = scale - 1;
    else if (v < -scale)
        v = -scale;
    return (int32_t)v;
}

void et_pack(const float *src, size_t n, et_sample format, int channels, unsigned char *dst)
{
    static const double scales[ET_SAMPLES] = {32768.0, 2147483648.0, 8388608.0, 8388608.0, 1.0};
    size_t bytes = et_sample_bytes(format);
    for (size_t i = 0; i < n; i++) {
        unsigned char sample[4];
        if (format == ET_F32) {
            float x = src[i] > 1.0f ? 1.0f : src[i] < -1.0f ? -1.0f : src[i];
            memcpy(sample, &x, 4);
        } else {
            int32_t v = quantise(src[i], scales[format]);
            if (format == ET_S16) {
                int16_t s = (int16_t)v;
                memcpy(sample, &s, 2);
            } else if (format == ET_S24_3) {
                /* Only offered on little-endian machines: the low three bytes come first. */
                memcpy(sample, &v, 3);
            } else {
                memcpy(sample, &v, 4);
            }
        }
        for (int c = 0; c < channels; c++, dst += bytes)
            memcpy(dst, sample, bytes);
    }
}
