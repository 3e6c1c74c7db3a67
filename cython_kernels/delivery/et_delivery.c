/* A delivery's life: made by the loop, its writer, its end. See et_delivery.h. */
#include "et_delivery.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "et_delivery_parts.h"

/* --- the writer ---------------------------------------------------------------------------------------- */

static int deliver(et_delivery *d)
{
    int err = et_fd_begin(d);
    while (!err) {
        if (atomic_load_explicit(&d->cancelled, memory_order_acquire))
            return -ECANCELED;
        /* Asked first: what is found empty after that stays empty. */
        bool ended = atomic_load_explicit(&d->ended, memory_order_acquire) != 0;
        ssize_t n = et_spool_take(d);
        if (n > 0) {
            err = et_fd_put(d, d->piece, (size_t)n, true);
            continue;
        }
        if (n == 0 && ended)
            return 0;
        if (n < 0 && n != -EAGAIN)
            return (int)n;
        atomic_store(&d->stuck_since, 0);
        err = et_fd_wait(d);
    }
    return err;
}

static void *run(void *arg)
{
    et_delivery *d = arg;
    et_thread_ordinary();
    int err = deliver(d);
    et_fd_end(d);
    pthread_mutex_lock(&d->lock);
    d->alive = false;
    if (!d->spilling)
        et_spool_forget(d);
    pthread_mutex_unlock(&d->lock);
    atomic_store(&d->error, err);
    atomic_store(&d->over, 1);
    /* Playout may wait for room that is not needed any more. */
    et_wake(d->room_fd);
    et_wake(d->store->bell_fd);
    et_delivery_unref(d);
    return NULL;
}

static void nothing(int number)
{
    (void)number;
}

/* A handler that does nothing, and no SA_RESTART: the blocked call returns EINTR. */
static void heed_kicks(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = nothing;
    sigemptyset(&act.sa_mask);
    sigaction(ET_KICK, &act, NULL);
}

/* --- life ---------------------------------------------------------------------------------------------- */

et_delivery *et_delivery_new(et_store *s, const et_delivery_config *config, int *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *err = -EINVAL;
    if (config->fd < 0 || config->rate < 1000 || config->memory < 2 * ET_SLOT || config->memory > ((uint64_t)1 << 30))
        return NULL;
    *err = -ENOMEM;
    et_delivery *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    pthread_once(&once, heed_kicks);
    d->config = *config;
    d->store = s;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_lock(&s->lock);
    s->refs++;
    pthread_mutex_unlock(&s->lock);
    et_spool_sink(d);
    *err = et_spool_init(d);
    if (*err) {
        et_delivery_free(d);
        return NULL;
    }
    d->refs = 2;
    d->alive = true;
    pthread_mutex_lock(&s->lock);
    d->next = s->first;
    s->first = d;
    pthread_mutex_unlock(&s->lock);
    /* Held until `thread` is known: the writer asks for it before it ends. */
    pthread_mutex_lock(&d->lock);
    *err = et_thread_start(&d->thread, "tts-delivery", run, d);
    pthread_mutex_unlock(&d->lock);
    if (*err) {
        et_delivery_unref(d);
        et_delivery_unref(d);
        return NULL;
    }
    return d;
}

et_sink *et_delivery_sink(et_delivery *d)
{
    return &d->base;
}

/* --- the loop's side ------------------------------------------------------------------------------------ */

void et_delivery_kick(et_delivery *d)
{
    pthread_mutex_lock(&d->lock);
    if (d->alive)
        pthread_kill(d->thread, ET_KICK);
    pthread_mutex_unlock(&d->lock);
}

void et_delivery_cancel(et_delivery *d)
{
    atomic_store(&d->cancelled, 1);
    pthread_mutex_lock(&d->lock);
    if (!d->spilling)
        et_spool_forget(d);
    pthread_mutex_unlock(&d->lock);
    et_wake(d->wake_fd);
    et_delivery_kick(d);
}

void et_delivery_skip(et_delivery *d, uint64_t n)
{
    atomic_store(&d->skip, n);
}

bool et_delivery_over(const et_delivery *d)
{
    return atomic_load(&d->over) != 0;
}

int et_delivery_error(const et_delivery *d)
{
    return atomic_load(&d->error);
}

uint64_t et_delivery_frames(const et_delivery *d)
{
    return atomic_load(&d->frames);
}

uint64_t et_delivery_bytes(const et_delivery *d)
{
    return atomic_load(&d->bytes);
}

int64_t et_delivery_stuck_since(const et_delivery *d)
{
    return atomic_load(&d->stuck_since);
}

int64_t et_delivery_full_since(const et_delivery *d)
{
    return atomic_load(&d->full_since);
}

uint64_t et_delivery_room(const et_delivery *d)
{
    return et_ring_space(&d->ring);
}
