/* See et_wav.h. */
#include "et_wav.h"

#include <string.h>

static void put_le(unsigned char *dst, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        dst[i] = (unsigned char)(v >> (8 * i));
}

void et_wav_header(unsigned char *h, int rate, bool streaming, uint64_t bytes)
{
    uint32_t data = streaming || bytes > UINT32_MAX - 36 ? UINT32_MAX : (uint32_t)bytes;
    memcpy(h, "RIFF", 4);
    put_le(h + 4, data == UINT32_MAX ? UINT32_MAX : data + 36, 4);
    memcpy(h + 8, "WAVEfmt ", 8);
    put_le(h + 16, 16, 4);
    put_le(h + 20, 1, 2);
    put_le(h + 22, 1, 2);
    put_le(h + 24, (uint32_t)rate, 4);
    put_le(h + 28, (uint32_t)rate * 2, 4);
    put_le(h + 32, 2, 2);
    put_le(h + 34, 16, 2);
    memcpy(h + 36, "data", 4);
    put_le(h + 40, data, 4);
}
