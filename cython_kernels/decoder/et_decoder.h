/* The codec decoder: codes in, PCM out, with explicit state. */
#ifndef ET_DECODER_H
#define ET_DECODER_H

#include "base/et_types.h"

typedef struct et_decoder et_decoder;

struct et_decoder {
    void *self;
    int groups;            /* codebooks of a frame */
    int samples_per_frame;
    int n_sizes;           /* chunk sizes that decode() takes, ascending */
    int sizes[8];
    int64_t warm_ns[8];    /* time of a chunk of each size, measured while loading; 0: not known */

    /* Start of a stream. */
    int (*reset)(et_decoder *d);
    /* Decode n frames, codes [n][groups], to pcm [n * samples_per_frame] in -1..1; n is one of sizes.
     * Returns ET_OK, ET_E_ARG (n, or a code out of range) or ET_E_BACKEND. */
    int (*decode)(et_decoder *d, const int32_t *codes, int n, float *pcm);
};

#endif
