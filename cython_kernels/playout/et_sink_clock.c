/* A sink without a device: it plays by the clock and keeps nothing. See et_sink.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/et_wait.h"
#include "et_sink.h"

typedef struct {
    et_sink base;
    double speed;             /* of the clock; 0: everything is heard at once */
    int64_t buffer;           /* frames that it holds */
    int64_t written, heard;   /* of this utterance */
    int64_t start_ns;         /* when frame start_frame is heard */
    int64_t start_frame;
    bool running, want_run, held, finishing;
} clock_sink;

static clock_sink *self(et_sink *s)
{
    return (clock_sink *)s;
}

/* Play up to now. 0 or ET_SINK_XRUN. */
static int advance(clock_sink *k)
{
    if (!k->running || k->held)
        return 0;
    int64_t now = k->written;
    if (k->speed > 0)
        now = k->start_frame + (int64_t)((double)(et_now_ns() - k->start_ns) * 1e-9 * k->base.rate * k->speed);
    k->heard = now < k->written ? now : k->written;
    if (k->speed <= 0 || now < k->written || k->finishing)
        return 0;
    k->running = k->want_run = false;
    atomic_fetch_add(&k->base.xruns, 1);
    return ET_SINK_XRUN;
}

static void run(clock_sink *k)
{
    if (k->running || !k->want_run || k->held || k->written == k->heard)
        return;
    k->running = true;
    k->start_ns = et_now_ns();
    k->start_frame = k->heard;
}

static int clock_open(et_sink *s)
{
    if (!s->is_open)
        atomic_fetch_add(&s->opens, 1);
    s->is_open = true;
    return 0;
}

static int clock_write(et_sink *s, const int16_t *pcm, size_t n)
{
    clock_sink *k = self(s);
    (void)pcm;
    int err = advance(k);
    if (err < 0)
        return err;
    int64_t room = k->buffer - (k->written - k->heard);
    if ((int64_t)n > room)
        n = (size_t)room;
    k->written += (int64_t)n;
    run(k);
    return (int)n;
}

static int clock_start(et_sink *s)
{
    self(s)->want_run = true;
    run(self(s));
    return 0;
}

static int clock_poll(et_sink *s, struct pollfd *fds, int max, bool want, int *timeout_ms)
{
    clock_sink *k = self(s);
    (void)fds, (void)max;
    if (!want || k->held)
        return 0;
    /* Half of what is left, because there is room for more by then, and the end is met closely. */
    double left_ms = k->speed > 0 ? (double)(k->written - k->heard) * 500 / s->rate / k->speed : 0;
    int limit = left_ms > 20 ? 20 : left_ms < 1 ? 1 : (int)left_ms;
    if (*timeout_ms < 0 || limit < *timeout_ms)
        *timeout_ms = limit;
    return 0;
}

static int clock_delay(et_sink *s, int64_t *frames)
{
    clock_sink *k = self(s);
    int err = advance(k);
    *frames = k->written - k->heard;
    return err;
}

static int clock_pause(et_sink *s, bool hold)
{
    clock_sink *k = self(s);
    int err = 0;
    if (hold == k->held)
        return 0;
    if (hold) {
        err = advance(k);
        k->running = false;
    }
    k->held = hold;
    run(k);
    return err;
}

static void clock_drop(et_sink *s)
{
    clock_sink *k = self(s);
    k->written = k->heard = 0;
    k->running = k->want_run = k->held = k->finishing = false;
}

static int clock_finish(et_sink *s)
{
    self(s)->finishing = true;
    return 0;
}

static int clock_drained(et_sink *s)
{
    clock_sink *k = self(s);
    if (k->held)
        return 0;
    k->want_run = true;
    run(k);
    advance(k);
    if (k->heard < k->written)
        return 0;
    clock_drop(s);
    return 1;
}

static void clock_close(et_sink *s)
{
    clock_drop(s);
    s->is_open = false;
}

static void clock_destroy(et_sink *s)
{
    free(s);
}

static const et_sink_ops clock_ops = {
    .name = "clock",
    .open = clock_open,
    .write = clock_write,
    .start = clock_start,
    .poll = clock_poll,
    .delay = clock_delay,
    .pause = clock_pause,
    .drop = clock_drop,
    .finish = clock_finish,
    .drained = clock_drained,
    .close = clock_close,
    .destroy = clock_destroy,
};

et_sink *et_sink_clock_new(int rate, double speed, size_t buffer, int *err)
{
    *err = -EINVAL;
    if (rate < 1000 || !(speed >= 0) || buffer == 0)
        return NULL;
    clock_sink *k = calloc(1, sizeof *k);
    *err = k ? 0 : -ENOMEM;
    if (!k)
        return NULL;
    k->base.ops = &clock_ops;
    k->base.rate = rate;
    k->base.keep_open_ms = -1;
    k->base.paced = speed > 0;
    k->speed = speed;
    k->buffer = (int64_t)buffer;
    return &k->base;
}
