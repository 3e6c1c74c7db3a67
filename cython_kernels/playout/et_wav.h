/* The header of a mono s16le WAV stream. */
#ifndef ET_WAV_H
#define ET_WAV_H

#include <stdbool.h>
#include <stdint.h>

enum { ET_WAV_HEADER = 44 };

/* Sizes that do not fit, and those of a stream, are the largest: readers then read to the end. */
void et_wav_header(unsigned char *h, int rate, bool streaming, uint64_t bytes);

#endif
