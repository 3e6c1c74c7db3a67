/* Signs of a runaway, a model that finds no end: long near-silence after speech, or codes that repeat. Plain data and
 * pure functions. */
#ifndef ET_RUNAWAY_H
#define ET_RUNAWAY_H

#include <stddef.h>
#include <stdint.h>

#include "base/et_limits.h"

/* Near-silence, by the power of whole frames. */
typedef struct {
    int limit;         /* quiet frames in a row that are too many; 0: never */
    double ratio;      /* a frame is quiet below this part of the loudest frame's power */
    double loudest;    /* of the utterance so far; 0: no speech yet */
    int quiet;         /* quiet frames in a row until now */
} et_quiet;

/* db: how far below the loudest frame quiet begins. */
void et_quiet_init(et_quiet *q, int limit, double db);
void et_quiet_begin_utterance(et_quiet *q);
/* A new sentence: the pause between two does not count. */
void et_quiet_begin_segment(et_quiet *q);
/* The next frame, n samples in -1..1. True when it is one quiet frame too many. */
int et_quiet_frame(et_quiet *q, const float *pcm, size_t n);

/* How many of n samples at their end (or beginning) are quiet, in whole blocks: the silence that a model puts at the
 * ends of a sentence. 0 where nothing loud came yet. */
size_t et_quiet_end(const et_quiet *q, const float *pcm, size_t n, size_t block, int at_begin);

/* Repetition: the last `limit` codes are those of `period` codes before, for any period up to `longest`. */
typedef struct {
    int limit;         /* repeated codes in a row that are too many; 0: never */
    int longest;       /* period, at most ET_MAX_PERIOD */
    int n;             /* codes so far */
    int history[ET_MAX_PERIOD];
    int run[ET_MAX_PERIOD + 1];
} et_repeat;

void et_repeat_begin(et_repeat *r, int limit, int longest);
/* The next code. True when it is one repetition too many. */
int et_repeat_code(et_repeat *r, int code);

#endif
