/* A sink that plays by the clock, keeps what it played, and fails when it was told to. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "et_pipe.h"
#include "et_sink.h"

typedef struct {
    et_sink base;
    et_fake_config config;
    et_fake_counts counts;
    int16_t *buffer;          /* a ring of config.buffer frames */
    int16_t *capture;
    uint64_t written, heard;  /* of this utterance */
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

static void hear(fake_sink *k, uint64_t until)
{
    for (; k->heard < until; k->heard++, k->counts.heard++)
        if (k->counts.heard < k->config.capture)
            k->capture[k->counts.heard] = k->buffer[k->heard % k->config.buffer];
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
    uint64_t until = now < k->written ? now : k->written;
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
        k->running = k->want_run = false;
        atomic_fetch_add(&k->base.xruns, 1);
        return ET_SINK_XRUN;
    }
    hear(k, until);
    if (k->config.speed > 0 && now >= k->written && !k->finishing) {
        k->running = k->want_run = false;
        atomic_fetch_add(&k->base.xruns, 1);
        return ET_SINK_XRUN;
    }
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
    double left_ms = k->config.speed > 0 ? (double)(k->written - k->heard) * 500 / s->rate / k->config.speed : 0;
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
        err = advance(k);
        k->counts.pauses++;
        k->running = false;
    }
    k->held = hold;
    run(k);
    return err;
}

static void fake_drop(et_sink *s)
{
    fake_sink *k = self(s);
    advance(k);
    k->counts.drops++;
    k->written = k->heard = 0;
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
    k->running = k->want_run = k->finishing = false;
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
    .drop = fake_drop,
    .finish = fake_finish,
    .drained = fake_drained,
    .close = fake_close,
    .destroy = fake_destroy,
};

et_sink *et_sink_fake_new(const et_fake_config *config, int *err)
{
    *err = -EINVAL;
    if (config->rate < 1000 || config->buffer == 0 || !(config->speed >= 0))
        return NULL;
    *err = -ENOMEM;
    fake_sink *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->base.ops = &fake_ops;
    k->base.rate = config->rate;
    k->base.keep_open_ms = config->keep_open_ms;
    k->base.stall_ms = config->stall_ms;
    k->base.paced = config->speed > 0;
    k->config = *config;
    k->buffer = malloc(config->buffer * sizeof *k->buffer);
    k->capture = malloc((config->capture + 1) * sizeof *k->capture);
    if (!k->buffer || !k->capture) {
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

void et_sink_fake_counts(const et_sink *s, et_fake_counts *counts)
{
    *counts = ((const fake_sink *)s)->counts;
}
