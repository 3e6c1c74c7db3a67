/* The volume: where samples become 16 bit on their way into the PCM ring. */
#ifndef ET_VOLUME_H
#define ET_VOLUME_H

#include <math.h>
#include <stdint.h>

/* A sample in -1..1 with the gain, rounded to nearest and clipped; NaN is silence. */
static inline int16_t et_volume_apply(float sample, float gain)
{
    float v = rintf(sample * gain * 32768.0f);
    if (!(v > -32768.0f)) /* NaN too */
        return isnan(v) ? 0 : -32768;
    return v > 32767.0f ? 32767 : (int16_t)v;
}

#endif
