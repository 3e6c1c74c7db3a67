/* See et_fade.h. */
#include "et_fade.h"

#include <math.h>
#include <string.h>

float et_fade_gain(int64_t i, int64_t n, bool rising)
{
    if (i < 0 || i >= n)
        return 1.0f;
    double angle = 3.14159265358979323846 * (double)(i + 1) / (double)(n + 1);
    return (float)(0.5 + 0.5 * cos(rising ? 3.14159265358979323846 - angle : angle));
}

int16_t et_fade_s16(int16_t sample, int64_t i, int64_t n, bool rising)
{
    return (int16_t)lrint((double)sample * et_fade_gain(i, n, rising));
}

static void scale(unsigned char *sample, et_sample format, double gain)
{
    if (format == ET_F32) {
        float x;
        memcpy(&x, sample, 4);
        x = (float)(x * gain);
        memcpy(sample, &x, 4);
    } else if (format == ET_S16) {
        int16_t x;
        memcpy(&x, sample, 2);
        x = (int16_t)lrint(x * gain);
        memcpy(sample, &x, 2);
    } else {
        /* 24 bits come without the sign in the fourth byte; the packed form exists on little-endian machines only. */
        int32_t x = 0;
        memcpy(&x, sample, format == ET_S24_3 ? 3 : 4);
        if (format != ET_S32)
            x = (int32_t)((uint32_t)x << 8) >> 8;
        x = (int32_t)lrint(x * gain);
        memcpy(sample, &x, format == ET_S24_3 ? 3 : 4);
    }
}

void et_fade_frames(unsigned char *frames, size_t count, et_sample format, int channels, int64_t i, int64_t n,
                    bool rising)
{
    size_t bytes = et_sample_bytes(format);
    for (size_t k = 0; k < count; k++) {
        double gain = et_fade_gain(i + (int64_t)k, n, rising);
        for (int c = 0; c < channels; c++, frames += bytes)
            scale(frames, format, gain);
    }
}
