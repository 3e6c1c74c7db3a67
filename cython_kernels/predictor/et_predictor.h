/* The code predictor: the local steps of one frame, each giving logits from which a code or a decision is drawn. */
#ifndef ET_PREDICTOR_H
#define ET_PREDICTOR_H

#include "base/et_types.h"

typedef struct et_predictor et_predictor;

struct et_predictor {
    void *self;
    int input_hidden; /* floats of an input row (the talker's hidden size) */
    int steps;        /* local steps of a frame */
    int vocab;        /* logits of a step */

    /* Start a frame with the talker's hidden state and a row behind it, both [input_hidden]; row is NULL where the
     * frame plan has none there. *logits [vocab] are those of step 0. */
    int (*begin)(et_predictor *p, const float *hidden, const float *row, const float **logits);
    /* Feed a row; *logits are those of step `step`, 1 .. steps-1, in this order. */
    int (*next)(et_predictor *p, int step, const float *row, const float **logits);
};

#endif
