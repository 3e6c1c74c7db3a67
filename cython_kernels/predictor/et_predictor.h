/* The code predictor: codebooks 1.. of one frame, one sub-step each. */
#ifndef ET_PREDICTOR_H
#define ET_PREDICTOR_H

#include "base/et_types.h"

typedef struct et_predictor et_predictor;

struct et_predictor {
    void *self;
    int input_hidden; /* floats of an input row (the talker's hidden size) */
    int groups;       /* codebooks of a frame, code 0 included */
    int vocab;        /* logits of one codebook */

    /* Start a frame with the talker's hidden state (position 0) and the row of code 0 (position 1), both
     * [input_hidden]; *logits [vocab] are those of codebook 1. */
    int (*begin)(et_predictor *p, const float *hidden, const float *row0, const float **logits);
    /* Feed the row of codebook `group` (1 .. groups-2); *logits are those of codebook group+1. */
    int (*next)(et_predictor *p, int group, const float *row, const float **logits);
};

#endif
