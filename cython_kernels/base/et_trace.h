/* Where the time of each frame went: a record of each frame (generator) and each chunk (decoder).
 *
 * Off by default. Each thread writes its own ring; a full ring loses the newest records and counts them. */
#ifndef ET_TRACE_H
#define ET_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#include "et_types.h"

enum et_step_kind {
    ET_STEP_PREFILL = 1,   /* n rows; parts: none */
    ET_STEP_FRAME,         /* n sub-steps; parts: talker, sampling, wait, then each sub-step */
    ET_STEP_DECODE,        /* n frames; parts: decode, hand-over to playout */
};

enum { ET_STEP_TALKER, ET_STEP_SAMPLE, ET_STEP_WAIT, ET_STEP_SUBSTEPS };
enum { ET_STEP_DECODER, ET_STEP_PUSH };
enum { ET_STEP_PARTS = ET_STEP_SUBSTEPS + ET_MAX_GROUPS };

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t n;
    int64_t t_ns;          /* begin, CLOCK_MONOTONIC */
    int64_t wall_ns;
    int64_t delay_ns;      /* how long threads of this process were ready to run but had no CPU; -1: unknown */
    int64_t part_ns[ET_STEP_PARTS];
} et_step;

/* The scheduler's account of this process's threads. */
typedef struct {
    int fds[64];
    int n;
    int64_t last;          /* sum at the last look */
} et_delay;

/* Take up the threads that there are now. */
void et_delay_open(et_delay *d);
/* Nanoseconds since the last call or since open; -1 where the kernel keeps no account. */
int64_t et_delay_take(et_delay *d);
void et_delay_close(et_delay *d);

#endif
