/* See et_talker_warm_up.h. */
#include "et_talker_warm_up.h"

#include <stdlib.h>
#include <time.h>

int et_talker_warm_up(et_talker *t, int rows)
{
    rows = rows < t->max_context ? rows : t->max_context;
    float *zeros = calloc((size_t)rows * (size_t)t->hidden, sizeof *zeros);
    if (!zeros)
        return ET_E_MEMORY;
    int rc = t->feed(t, zeros, rows);
    if (rc == ET_OK && rows < t->max_context) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        rc = t->feed(t, zeros, 1);
        clock_gettime(CLOCK_MONOTONIC, &end);
        t->warm_ns = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    }
    free(zeros);
    t->reset(t);
    return rc;
}
