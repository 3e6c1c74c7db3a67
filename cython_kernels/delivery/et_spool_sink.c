/* The spool of a delivery as playout sees it: a sink. See et_delivery.h. */
#include <unistd.h>

#include "et_delivery_parts.h"

static et_delivery *self(et_sink *s)
{
    return (et_delivery *)s;
}

/* --- playout ------------------------------------------------------------------------------------------- */

static int spool_open(et_sink *s)
{
    s->is_open = true;
    atomic_fetch_add(&s->opens, 1);
    return 0;
}

/* Frames again that the spool has already, from before the render was set back. */
static size_t skip_frames(et_delivery *d, size_t n)
{
    uint64_t skip = atomic_load_explicit(&d->skip, memory_order_acquire);
    if (skip < n)
        n = (size_t)skip;
    if (n)
        atomic_fetch_sub_explicit(&d->skip, n, memory_order_acq_rel);
    return n;
}

static size_t append(et_delivery *d, const int16_t *pcm, size_t n)
{
    size_t got = et_ring_write(&d->ring, pcm, n);
    if (got == 0) {
        bool found = atomic_load_explicit(&d->full_since, memory_order_relaxed) == 0;
        /* Announced first, then looked once more. Whoever makes room exchanges the same word afterwards: the later of
         * the two exchanges sees what came before the earlier one. So whoever makes the last room sees `full_since`. */
        if (found)
            atomic_store(&d->full_since, et_now_ns());
        atomic_exchange(&d->waits, 1);
        got = et_ring_write(&d->ring, pcm, n);
        if (got)
            atomic_exchange(&d->waits, 0);
        else if (found)
            et_wake(d->store->bell_fd);
    }
    return got;
}

static int spool_write(et_sink *s, const int16_t *pcm, size_t n)
{
    et_delivery *d = self(s);
    size_t got = skip_frames(d, n);
    if (got)
        return (int)got;
    if (atomic_load_explicit(&d->over, memory_order_acquire))
        return (int)n; /* nobody takes it any more; the loop ends the render */
    got = append(d, pcm, n);
    if (got == 0) {
        et_wake(d->store->wake_fd);
        return 0;
    }
    atomic_store_explicit(&d->full_since, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->frames, got, memory_order_relaxed);
    et_wake(d->wake_fd);
    if (et_ring_used(&d->ring) >= d->ring.capacity / 4 * 3)
        et_wake(d->store->wake_fd);
    return (int)got;
}

static int spool_start(et_sink *s)
{
    (void)s;
    return 0;
}

static int spool_poll(et_sink *s, struct pollfd *fds, int max, bool want, int *timeout_ms)
{
    (void)timeout_ms;
    if (max < 1 || !want)
        return 0;
    fds[0] = (struct pollfd){.fd = self(s)->room_fd, .events = POLLIN};
    return 1;
}

static int spool_polled(et_sink *s, struct pollfd *fds, int n)
{
    uint64_t count;
    if (n > 0 && fds[0].revents & POLLIN && read(self(s)->room_fd, &count, sizeof count) < 0)
        count = 0;
    return 0;
}

/* What is in the spool counts as heard: playout is done with it. */
static int spool_delay(et_sink *s, int64_t *frames)
{
    (void)s;
    *frames = 0;
    return 0;
}

static int spool_pause(et_sink *s, bool hold)
{
    (void)s;
    (void)hold;
    return 0;
}

/* The end of a generation is not that of the render: it may have been set back. */
static void spool_drop(et_sink *s)
{
    (void)s;
}

static int spool_finish(et_sink *s)
{
    et_delivery *d = self(s);
    atomic_store_explicit(&d->ended, 1, memory_order_release);
    et_wake(d->wake_fd);
    return 0;
}

static int spool_drained(et_sink *s)
{
    (void)s;
    return 1;
}

static void spool_close(et_sink *s)
{
    s->is_open = false;
}

static void spool_destroy(et_sink *s)
{
    et_delivery_unref(self(s));
}

static const et_sink_ops spool_ops = {
    .name = "spool",
    .open = spool_open,
    .write = spool_write,
    .start = spool_start,
    .poll = spool_poll,
    .polled = spool_polled,
    .delay = spool_delay,
    .pause = spool_pause,
    .drop = spool_drop,
    .finish = spool_finish,
    .drained = spool_drained,
    .close = spool_close,
    .destroy = spool_destroy,
};

void et_spool_sink(et_delivery *d)
{
    d->base.ops = &spool_ops;
    d->base.rate = d->config.rate;
}
