/* Fades: where sound stops or goes on in the middle of loud samples it does so over a few milliseconds, not in one
 * step that is heard as a click. Pure functions. */
#ifndef ET_FADE_H
#define ET_FADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "et_resample.h"

/* Gain of sample i of a fade over n samples, in 0..1: half a cosine, falling from just below one to just above
 * zero, or rising the same way. One where i is not in 0..n-1. */
float et_fade_gain(int64_t i, int64_t n, bool rising);

/* The sample with that gain, rounded to nearest. */
int16_t et_fade_s16(int16_t sample, int64_t i, int64_t n, bool rising);

/* count frames of a device's format, in place; the first one is frame i of a fade over n. */
void et_fade_frames(unsigned char *frames, size_t count, et_sample format, int channels, int64_t i, int64_t n,
                    bool rising);

#endif
