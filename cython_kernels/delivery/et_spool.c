/* The spool of a delivery: its ring and slots, and the writer's end of them. See et_delivery.h. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "et_delivery_parts.h"

/* --- writer -------------------------------------------------------------------------------------------- */

void et_spool_made_room(et_delivery *d)
{
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
