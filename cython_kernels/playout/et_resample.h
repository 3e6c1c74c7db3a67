/* Streaming sample rate conversion (mono) and packing into a device's sample format. */
#ifndef ET_RESAMPLE_H
#define ET_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A stream of n input frames gives exactly round(n * out_rate / in_rate) output frames, wherever it was cut.
 * Equal rates pass through unchanged. */
typedef struct {
    int in_rate, out_rate;
    size_t max_in;         /* most input frames of one call */
    size_t max_out;        /* room that a call may need */
    struct soxr *soxr;     /* NULL when the rates are equal */
    float *in;             /* max_in */
    int64_t in_total, out_total;
    bool dry;              /* the filter has given all it had */
} et_resample;

/* 0, -EINVAL (rates outside 4000..384000, max_in 0) or -ENOMEM. */
int et_resample_init(et_resample *r, int in_rate, int out_rate, size_t max_in);
void et_resample_free(et_resample *r);

/* Forget everything: the next frame is the first of a stream. 0 or -ENOMEM. */
int et_resample_reset(et_resample *r);

/* Take n <= max_in frames and write what they give to out (room for max_out floats in -1..1, which filtering
 * may exceed a little); the number written. */
size_t et_resample_feed(et_resample *r, const int16_t *in, size_t n, float *out);

/* After the last feed: the rest of the stream, up to max_out floats a call; 0 at its end. */
size_t et_resample_flush(et_resample *r, float *out);

/* Output frames of a stream of n input frames. */
int64_t et_resample_length(const et_resample *r, int64_t n);

/* --- sample formats ---------------------------------------------------------------------------------- */

typedef enum {
    ET_S16 = 0,   /* native byte order, also below */
    ET_S32,
    ET_S24,       /* low three bytes of four */
    ET_S24_3,     /* packed in three bytes */
    ET_F32,
    ET_SAMPLES,   /* number of formats */
} et_sample;

static inline size_t et_sample_bytes(et_sample format)
{
    static const unsigned char bytes[ET_SAMPLES] = {2, 4, 4, 3, 4};
    return bytes[format];
}

/* n mono floats as frames of `channels` equal samples, rounded to nearest and clipped; dst holds
 * n * channels * et_sample_bytes(format). */
void et_pack(const float *src, size_t n, et_sample format, int channels, unsigned char *dst);

#endif
