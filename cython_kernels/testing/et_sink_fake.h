/* A sink for tests: it plays by the clock, keeps what it played, and fails when it was told to. */
#ifndef ET_SINK_FAKE_H
#define ET_SINK_FAKE_H

#include "playout/et_sink.h"

typedef struct {
    int rate;
    double speed;             /* of the clock it plays by; 0: hears everything at once */
    size_t buffer;            /* frames it holds */
    size_t capture;           /* frames kept of what was heard */
    int64_t xrun_at;          /* runs dry once when this frame is heard; -1 never */
    int64_t fail_at;          /* fails with fail_errno when this frame is heard; -1 never */
    int fail_errno;           /* positive */
    int fail_times;           /* that it fails, then it is well again; 0: for ever */
    int open_errno;           /* positive: open fails with it; 0: it does not */
    int open_fails;           /* the first opens that fail; 0: all of them */
    int open_ms, drain_ms;    /* open takes this long; drained comes this much late */
    int close_ms;             /* close takes this long */
    int keep_open_ms, stall_ms, fade_ms;
} et_fake_config;

typedef struct {
    uint64_t heard, opens, closes, starts, drops, pauses, fades, gaps;
} et_fake_counts;

/* A fade that was heard, or its beginning. */
typedef struct {
    uint64_t at;              /* frames heard before it, over the sink's life */
    int64_t length;           /* frames it was to take */
    int64_t heard;            /* frames of it that were heard */
    bool rising;
} et_fake_fade;

et_sink *et_sink_fake_new(const et_fake_config *config, int *err);
/* Copy up to n captured frames from frame `from` on; the number copied. For use while nothing plays. */
size_t et_sink_fake_heard(const et_sink *s, size_t from, int16_t *dst, size_t n);
void et_sink_fake_counts(const et_sink *s, et_fake_counts *counts);
/* Copy up to n of the fades that are kept, in order; how many are kept. For use while nothing plays. */
size_t et_sink_fake_fades(const et_sink *s, et_fake_fade *dst, size_t n);
/* Copy up to n of the places where the sink ran dry, as frames heard before; how many are kept. */
size_t et_sink_fake_gaps(const et_sink *s, uint64_t *dst, size_t n);

#endif
