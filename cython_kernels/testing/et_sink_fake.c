/* See et_sink_fake.h. */
#include "et_sink_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "playout/et_fade.h"
#include "pipe/et_pipe.h"

enum { FADES = 8192, GAPS = 8192 };

typedef struct {
    et_sink base;
    et_fake_config config;
    et_fake_counts counts;
    int16_t *buffer;          /* a ring of config.buffer frames */
    int16_t *capture;
    uint64_t written, heard;  /* of this utterance */
    et_fake_fade *fades;
    uint64_t *gaps;
    uint64_t fade_end;        /* silence from here on */
    bool fading, rising;
    size_t fall, rise;        /* their entries in fades */
    bool running, want_run, held, xrun_done, finishing;
    int failed, refused;      /* times */
    int64_t start_ns;         /* when frame start_frame is heard */
    uint64_t start_frame;
    int64_t drain_ns;
} fake_sink;

static fake_sink *self(et_sink *s)
{
    return (fake_sink *)s;
}

static int64_t fade_frames(const fake_sink *k)
{
    return (int64_t)k->base.rate * k->base.fade_ms / 1000;
}

/* A fade begins with the frame that is heard next. */
static size_t note_fade(fake_sink *k, int64_t length, bool rising)
{
    size_t i = (size_t)(k->counts.fades < FADES ? k->counts.fades : FADES - 1);
    k->fades[i] = (et_fake_fade){.at = k->counts.heard, .length = length, .rising = rising};
    k->counts.fades++;
    return i;
}

static int16_t fade(fake_sink *k, int16_t sample, size_t note)
{
    et_fake_fade *f = &k->fades[note];
    return f->heard < f->length ? et_fade_s16(sample, f->heard++, f->length, f->rising) : sample;
}

static int16_t sounds(fake_sink *k)
{
    int16_t sample = k->buffer[k->heard % k->config.buffer];
    if (k->rising)
        sample = fade(k, sample, k->rise);
    return k->fading ? fade(k, sample, k->fall) : sample;
}

static void hear(fake_sink *k, uint64_t until)
{
    for (; k->heard < until; k->heard++, k->counts.heard++) {
        int16_t sample = sounds(k);
        if (k->counts.heard < k->config.capture)
            k->capture[k->counts.heard] = sample;
    }
}

/* It runs dry before the frame that is heard next. */
static int ran_dry(fake_sink *k)
{
    if (k->counts.gaps < GAPS)
        k->gaps[k->counts.gaps] = k->counts.heard;
    k->counts.gaps++;
    k->running = k->want_run = false;
    atomic_fetch_add(&k->base.xruns, 1);
    return ET_SINK_XRUN;
}

/* Play up to now. 0, ET_SINK_XRUN or negative errno. */
static int advance(fake_sink *k)
{
    if (!k->running || k->held)
        return 0;
    uint64_t now = k->written;
    if (k->config.speed > 0)
        now = k->start_frame +
              (uint64_t)((double)(et_now_ns() - k->start_ns) * 1e-9 * k->base.rate * k->config.speed);
    uint64_t last = k->fading ? k->fade_end : k->written;
    uint64_t until = now < last ? now : last;
    uint64_t before = k->counts.heard;
    int64_t fail = k->config.fail_at, xrun = k->config.xrun_at;
    if (fail >= 0 && (!k->config.fail_times || k->failed < k->config.fail_times) && before + (until - k->heard) >= (uint64_t)fail) {
        if ((uint64_t)fail > before)
            hear(k, k->heard + ((uint64_t)fail - before));
        k->failed++;
        k->running = k->want_run = false;
        return -k->config.fail_errno;
    }
    if (xrun >= 0 && !k->xrun_done && before + (until - k->heard) >= (uint64_t)xrun) {
        /* Only what was heard is gone: the rest is sent again. */
        if ((uint64_t)xrun > before)
            hear(k, k->heard + ((uint64_t)xrun - before));
        k->xrun_done = true;
        return ran_dry(k);
    }
    hear(k, until);
    if (k->config.speed > 0 && now >= k->written && !k->finishing && !k->fading)
        return ran_dry(k);
    return 0;
}

static void run(fake_sink *k)
{
    if (k->running || !k->want_run || k->held || k->written == k->heard)
        return;
    k->running = true;
    k->start_ns = et_now_ns();
    k->start_frame = k->heard;
    k->counts.starts++;
}

static void spend_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    if (ms > 0)
        nanosleep(&t, NULL);
}

static int fake_open(et_sink *s)
{
    fake_sink *k = self(s);
    if (s->is_open)
        return 0;
    spend_ms(k->config.open_ms);
    s->failed_step = "open";
    if (k->config.open_errno && (!k->config.open_fails || k->refused < k->config.open_fails)) {
        k->refused++;
        return -k->config.open_errno;
    }
    s->failed_step = NULL;
    s->is_open = true;
    k->counts.opens++;
    atomic_fetch_add(&s->opens, 1);
    return 0;
}

static int fake_write(et_sink *s, const int16_t *pcm, size_t n)
{
    fake_sink *k = self(s);
    int err = advance(k);
    if (err < 0)
        return err;
    size_t room = k->config.buffer - (size_t)(k->written - k->heard);
    if (n > room)
        n = room;
    for (size_t i = 0; i < n; i++)
        k->buffer[(k->written + i) % k->config.buffer] = pcm[i];
    k->written += n;
    run(k);
    return (int)n;
}

static int fake_start(et_sink *s)
{
    self(s)->want_run = true;
    run(self(s));
    return 0;
}

static int fake_poll(et_sink *s, struct pollfd *fds, int max, bool want, int *timeout_ms)
{
    fake_sink *k = self(s);
    (void)fds, (void)max;
    if (!want || k->held)
        return 0;
    /* Half of what is left: room for more by then, and the end is met closely. */
    uint64_t last = k->fading ? k->fade_end : k->written;
    double left_ms = k->config.speed > 0 ? (double)(last - k->heard) * 500 / s->rate / k->config.speed : 0;
    int limit = left_ms > 20 ? 20 : left_ms < 1 ? 1 : (int)left_ms;
    if (*timeout_ms < 0 || limit < *timeout_ms)
        *timeout_ms = limit;
    return 0;
}

static int fake_delay(et_sink *s, int64_t *frames)
{
    fake_sink *k = self(s);
    int err = advance(k);
    *frames = (int64_t)(k->written - k->heard);
    return err;
}

static int fake_pause(et_sink *s, bool hold)
{
    fake_sink *k = self(s);
    int err = 0;
    if (hold == k->held)
        return 0;
    if (hold) {
        err = k->fading ? 0 : advance(k);
        k->counts.pauses++;
        k->running = false;
        k->rising = k->fading || k->rising;
        if (k->fading) {
            k->rise = note_fade(k, fade_frames(k), true);
            k->want_run = true;
        }
        k->fading = false;
    }
    k->held = hold;
    run(k);
    return err;
}

static int fake_fade(et_sink *s)
{
    fake_sink *k = self(s);
    if (k->fading)
        return 1;
    int err = fade_frames(k) <= 0 || k->held ? 0 : advance(k);
    if (fade_frames(k) <= 0 || k->held || err < 0 || !k->running || k->heard == k->written)
        return err;
    int64_t left = (int64_t)(k->written - k->heard), n = left < fade_frames(k) ? left : fade_frames(k);
    k->fade_end = k->heard + (uint64_t)n;
    k->fall = note_fade(k, n, false);
    k->fading = true;
    return 1;
}

static int fake_faded(et_sink *s)
{
    fake_sink *k = self(s);
    return !k->fading || advance(k) < 0 || !k->running || k->heard >= k->fade_end;
}

static void fake_drop(et_sink *s)
{
    fake_sink *k = self(s);
    advance(k);
    k->counts.drops++;
    k->written = k->heard = 0;
    k->fading = k->rising = false;
    k->running = k->want_run = k->held = k->finishing = false;
}

static int fake_finish(et_sink *s)
{
    self(s)->finishing = true;
    self(s)->drain_ns = 0;
    return 0;
}

static int fake_drained(et_sink *s)
{
    fake_sink *k = self(s);
    if (k->held)
        return 0;
    k->want_run = true;
    run(k);
    int err = advance(k);
    if (err < 0)
        return err == ET_SINK_XRUN ? 0 : err;
    if (k->heard < k->written)
        return 0;
    if (!k->drain_ns)
        k->drain_ns = et_now_ns() + (int64_t)k->config.drain_ms * 1000000;
    if (et_now_ns() < k->drain_ns)
        return 0;
    k->written = k->heard = 0;
    k->running = k->want_run = k->finishing = k->rising = false;
    return 1;
}

static void fake_close(et_sink *s)
{
    fake_sink *k = self(s);
    if (!s->is_open)
        return;
    fake_drop(s);
    k->counts.drops--; /* not one that the caller asked for */
    k->counts.closes++;
    spend_ms(k->config.close_ms);
    s->is_open = false;
}

static void fake_destroy(et_sink *s)
{
    fake_sink *k = self(s);
    free(k->buffer);
    free(k->capture);
    free(k->fades);
    free(k->gaps);
    free(k);
}

static const et_sink_ops fake_ops = {
    .name = "fake",
    .open = fake_open,
    .write = fake_write,
    .start = fake_start,
    .poll = fake_poll,
    .delay = fake_delay,
    .pause = fake_pause,
    .fade = fake_fade,
    .faded = fake_faded,
    .drop = fake_drop,
    .finish = fake_finish,
    .drained = fake_drained,
    .close = fake_close,
    .destroy = fake_destroy,
};

et_sink *et_sink_fake_new(const et_fake_config *config, int *err)
{
    *err = -EINVAL;
    if (config->rate < 1000 || config->buffer == 0 || !(config->speed >= 0) ||
        config->fade_ms < 0 || config->fade_ms > ET_MAX_FADE_MS)
        return NULL;
    *err = -ENOMEM;
    fake_sink *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->base.ops = &fake_ops;
    k->base.rate = config->rate;
    k->base.keep_open_ms = config->keep_open_ms;
    k->base.stall_ms = config->stall_ms;
    k->base.fade_ms = config->fade_ms;
    k->base.paced = config->speed > 0;
    k->config = *config;
    k->buffer = malloc(config->buffer * sizeof *k->buffer);
    k->capture = malloc((config->capture + 1) * sizeof *k->capture);
    k->fades = malloc(FADES * sizeof *k->fades);
    k->gaps = malloc(GAPS * sizeof *k->gaps);
    if (!k->buffer || !k->capture || !k->fades || !k->gaps) {
        fake_destroy(&k->base);
        return NULL;
    }
    *err = 0;
    return &k->base;
}

size_t et_sink_fake_heard(const et_sink *s, size_t from, int16_t *dst, size_t n)
{
    const fake_sink *k = (const fake_sink *)s;
    size_t kept = k->counts.heard < k->config.capture ? (size_t)k->counts.heard : k->config.capture;
    if (from >= kept)
        return 0;
    if (n > kept - from)
        n = kept - from;
    memcpy(dst, k->capture + from, n * sizeof *dst);
    return n;
}

size_t et_sink_fake_fades(const et_sink *s, et_fake_fade *dst, size_t n)
{
    const fake_sink *k = (const fake_sink *)s;
    size_t kept = k->counts.fades < FADES ? (size_t)k->counts.fades : FADES;
    if (n)
        memcpy(dst, k->fades, (n < kept ? n : kept) * sizeof *dst);
    return kept;
}

size_t et_sink_fake_gaps(const et_sink *s, uint64_t *dst, size_t n)
{
    const fake_sink *k = (const fake_sink *)s;
    size_t kept = k->counts.gaps < GAPS ? (size_t)k->counts.gaps : GAPS;
    if (n)
        memcpy(dst, k->gaps, (n < kept ? n : kept) * sizeof *dst);
    return kept;
}

void et_sink_fake_counts(const et_sink *s, et_fake_counts *counts)
{
    *counts = ((const fake_sink *)s)->counts;
}
