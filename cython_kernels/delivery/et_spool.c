/* The spool of a delivery: playout's sink on one end, the writer's pieces on the other. See et_delivery.h. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
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
        /* Whoever makes room looks for a sleeper afterwards: announced first, then looked once more. */
        atomic_store(&d->waits, 1);
        atomic_thread_fence(memory_order_seq_cst);
        got = et_ring_write(&d->ring, pcm, n);
        if (got)
            atomic_store(&d->waits, 0);
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
        if (atomic_load_explicit(&d->full_since, memory_order_relaxed) == 0) {
            atomic_store(&d->full_since, et_now_ns());
            et_wake(d->store->bell_fd);
        }
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

/* --- writer -------------------------------------------------------------------------------------------- */

void et_spool_made_room(et_delivery *d)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_exchange(&d->waits, 0))
        et_wake(d->room_fd);
    /* A render that was taken off the pipeline for a full spool may go on. */
    if (atomic_load_explicit(&d->full_since, memory_order_relaxed) && et_ring_space(&d->ring) >= d->ring.capacity / 2) {
        atomic_store(&d->full_since, 0);
        et_wake(d->store->bell_fd);
    }
}

void et_spool_forget(et_delivery *d)
{
    while (d->first >= 0) {
        int slot = d->first;
        d->first = d->store->next[slot];
        et_store_give_slot(d->store, slot);
    }
    d->last = -1;
}

static ssize_t read_slot(et_delivery *d, int slot)
{
    size_t have = 0;
    while (have < ET_SLOT) {
        ssize_t n = pread(et_store_file(d->store), d->piece + have, ET_SLOT - have, (off_t)slot * ET_SLOT + (off_t)have);
        if (n <= 0 && errno == EINTR && n < 0)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    et_store_give_slot(d->store, slot);
    return have == ET_SLOT ? ET_SLOT : -ET_DELIVERY_LOST;
}

ssize_t et_spool_take(et_delivery *d)
{
    ssize_t n = 0;
    int slot = -1;
    pthread_mutex_lock(&d->lock);
    if (d->first >= 0) {
        slot = d->first;
        d->first = d->store->next[slot];
        if (d->first < 0)
            d->last = -1;
    } else if (d->spilling) {
        n = -EAGAIN;
    } else {
        n = 2 * (ssize_t)et_ring_read(&d->ring, d->piece, ET_SLOT_FRAMES);
    }
    pthread_mutex_unlock(&d->lock);
    if (slot >= 0)
        n = read_slot(d, slot);
    else if (n > 0)
        et_spool_made_room(d);
    for (ssize_t i = 0; i < n; i += 2) {
        uint16_t sample;
        memcpy(&sample, d->piece + i, 2);
        sample = htole16(sample);
        memcpy(d->piece + i, &sample, 2);
    }
    return n;
}

/* --- both ---------------------------------------------------------------------------------------------- */

int et_spool_init(et_delivery *d)
{
    d->base.ops = &spool_ops;
    d->base.rate = d->config.rate;
    d->first = d->last = -1;
    d->wake_fd = d->room_fd = -1;
    if (et_ring_init(&d->ring, sizeof(int16_t), (size_t)d->config.memory / 2))
        return -ENOMEM;
    d->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    d->room_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return d->wake_fd < 0 || d->room_fd < 0 ? -errno : 0;
}

void et_spool_free(et_delivery *d)
{
    et_ring_free(&d->ring);
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    if (d->room_fd >= 0)
        close(d->room_fd);
}
