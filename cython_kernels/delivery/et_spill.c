/* The store's beginning, and its thread, which moves samples of writers that stand still from memory into the overflow
 * file. See et_delivery.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "et_delivery_parts.h"

/* STUCK_MS: a writer that has moved more recently needs no help. RETRY_MS: after the file failed. */
enum { STUCK_MS = 20, RETRY_MS = 1000 };

/* --- the thread ---------------------------------------------------------------------------------------- */

static int make_file(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/spool.XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static bool write_slot(et_store *s, int slot)
{
    size_t gone = 0;
    if (s->fd < 0)
        s->fd = make_file(s->folder);
    while (s->fd >= 0 && gone < ET_SLOT) {
        ssize_t n = pwrite(s->fd, (char *)s->piece + gone, ET_SLOT - gone, (off_t)slot * ET_SLOT + (off_t)gone);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        gone += (size_t)n;
    }
    s->grown = true;
    if (gone == ET_SLOT)
        return true;
    atomic_store(&s->failed, errno ? errno : EIO);
    et_wake(s->bell_fd);
    s->retry_ns = et_now_ns() + (int64_t)RETRY_MS * 1000000;
    return false;
}

/* One slot of a delivery's samples from memory into the file. False when that cannot be now. */
static bool spill(et_store *s, et_delivery *d)
{
    pthread_mutex_lock(&d->lock);
    bool wanted = !atomic_load(&d->cancelled) && !atomic_load(&d->over) && et_ring_used(&d->ring) >= ET_SLOT_FRAMES;
    d->spilling = wanted;
    pthread_mutex_unlock(&d->lock);
    if (!wanted)
        return true;
    int slot = et_store_take_slot(s);
    bool written = false;
    if (slot >= 0) {
        et_ring_peek(&d->ring, s->piece, ET_SLOT_FRAMES);
        written = write_slot(s, slot);
    }
    pthread_mutex_lock(&d->lock);
    if (written) {
        et_ring_skip(&d->ring, ET_SLOT_FRAMES);
        s->next[slot] = -1;
        if (d->last >= 0)
            s->next[d->last] = slot;
        else
            d->first = slot;
        d->last = slot;
    }
    d->spilling = false;
    /* Whoever cancels, and a writer that ends, leave the slots of a delivery that spills to this thread. */
    if (atomic_load(&d->cancelled) || !d->alive)
        et_spool_forget(d);
    pthread_mutex_unlock(&d->lock);
    if (slot >= 0 && !written)
        et_store_give_slot(s, slot);
    if (written)
        et_spool_made_room(d);
    et_wake(d->wake_fd);
    return written;
}

static bool stands(const et_delivery *d, int64_t now)
{
    int64_t since = atomic_load(&d->stuck_since);
    return since && now - since >= (int64_t)STUCK_MS * 1000000;
}

/* A delivery with much in memory whose writer stands still, with a reference; that which waits longest. *soon: one whose
 * writer moves still has much. */
static et_delivery *pick(et_store *s, bool *soon)
{
    int64_t now = et_now_ns();
    et_delivery *found = NULL;
    pthread_mutex_lock(&s->lock);
    for (et_delivery *d = s->first; d; d = d->next) {
        size_t used = et_ring_used(&d->ring), capacity = d->ring.capacity;
        /* What is cancelled needs no room, however long its writer stays. */
        d->spills = used >= (d->spills ? capacity / 2 : capacity / 4 * 3) && !atomic_load(&d->over) &&
                    !atomic_load(&d->cancelled);
        if (!d->spills)
            continue;
        if (!stands(d, now))
            *soon = true;
        else if (!found || d->turn < found->turn)
            found = d;
    }
    if (found) {
        found->turn = ++s->turns;
        found->refs++;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

static void give_space_back(et_store *s)
{
    pthread_mutex_lock(&s->lock);
    bool empty = s->used == 0;
    pthread_mutex_unlock(&s->lock);
    if (empty && s->fd >= 0 && s->grown && ftruncate(s->fd, 0) == 0)
        s->grown = false;
}

static bool stopping(et_store *s)
{
    pthread_mutex_lock(&s->lock);
    bool stop = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

static void *run(void *arg)
{
    et_store *s = arg;
    et_thread_ordinary();
    while (!stopping(s)) {
        bool soon = false, full = false;
        et_delivery *d;
        while (et_now_ns() >= s->retry_ns && !full && !stopping(s) && (d = pick(s, &soon)) != NULL) {
            full = !spill(s, d);
            et_delivery_unref(d);
        }
        give_space_back(s);
        int64_t wait = (s->retry_ns - et_now_ns()) / 1000000 + 1;
        et_wait(s->wake_fd, wait > 0 ? (int)wait : soon ? STUCK_MS : -1);
    }
    et_store_unref(s);
    return NULL;
}

/* --- the store ------------------------------------------------------------------------------------------ */

et_store *et_store_new(const char *folder, uint64_t bytes, int *err)
{
    *err = -EINVAL;
    if (bytes > ((uint64_t)1 << 40))
        return NULL;
    *err = -ENOMEM;
    et_store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->refs = 1;
    s->fd = -1;
    s->slots = folder ? (int)(bytes / ET_SLOT) : 0;
    s->free = s->slots ? 0 : -1;
    pthread_mutex_init(&s->lock, NULL);
    s->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->next = malloc((size_t)(s->slots + 1) * sizeof *s->next);
    s->folder = folder ? strdup(folder) : NULL;
    if (s->bell_fd < 0 || s->wake_fd < 0 || !s->next || (folder && !s->folder)) {
        et_store_unref(s);
        return NULL;
    }
    for (int i = 0; i < s->slots; i++)
        s->next[i] = i + 1 < s->slots ? i + 1 : -1;
    *err = 0;
    if (s->slots) {
        pthread_t thread;
        s->refs++;
        *err = et_thread_start(&thread, "tts-spool", run, s);
        if (*err) {
            s->refs--;
            et_store_unref(s);
            return NULL;
        }
    }
    return s;
}
