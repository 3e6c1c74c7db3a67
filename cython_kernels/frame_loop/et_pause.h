/* The silence between two sentences.
 *
 * It is as long as asked for, with the model's own silence at the sentences' ends counted in. The model's silence is
 * never cut, because a soft sound might be in it: the pause is made shorter instead, down to nothing. Up to one frame of
 * the pause is held back, because the next sentence may begin with silence. */
#ifndef ET_PAUSE_H
#define ET_PAUSE_H

#include <stdint.h>

typedef struct {
    int64_t trailing; /* quiet samples at the end of what was pushed of this sentence */
    int64_t reserve;  /* samples of the pause that are held back */
} et_pause;

/* A pause of `asked` samples begins: how many of them are pushed now. */
static inline int64_t et_pause_begin(et_pause *p, int64_t asked, int64_t samples_per_frame)
{
    int64_t left = asked > p->trailing ? asked - p->trailing : 0;
    p->reserve = left < samples_per_frame ? left : samples_per_frame;
    return left - p->reserve;
}

/* It ends before a sentence that begins with `leading` quiet samples, or at the end: how many are still pushed. */
static inline int64_t et_pause_end(et_pause *p, int64_t leading)
{
    int64_t left = p->reserve > leading ? p->reserve - leading : 0;
    p->reserve = 0;
    return left;
}

#endif
