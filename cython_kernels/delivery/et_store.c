/* The store: slots of the overflow file, and the store's end. See et_delivery.h. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "et_delivery_parts.h"

enum { STACK = 128 * 1024 };

/* --- slots --------------------------------------------------------------------------------------------- */

int et_store_take_slot(et_store *s)
{
    pthread_mutex_lock(&s->lock);
    int slot = s->free;
    if (slot >= 0) {
        s->free = s->next[slot];
        s->used++;
    }
    pthread_mutex_unlock(&s->lock);
    return slot;
}

void et_store_give_slot(et_store *s, int slot)
{
    pthread_mutex_lock(&s->lock);
    s->next[slot] = s->free;
    s->free = slot;
    s->used--;
    pthread_mutex_unlock(&s->lock);
    /* Another delivery may wait for a slot; and an empty file gives its space back. */
    et_wake(s->wake_fd);
}

/* --- life ---------------------------------------------------------------------------------------------- */

void et_thread_ordinary(void)
{
    /* 0 is the calling thread. Giving a priority up is allowed to everybody. */
    if (getpriority(PRIO_PROCESS, 0) < 0)
        setpriority(PRIO_PROCESS, 0, 0);
}

int et_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK);
    /* Signals are for the other threads; SIGPIPE is an error number here. */
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, ET_KICK);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (!err)
        pthread_setname_np(*thread, name);
    return -err;
}

void et_store_unref(et_store *s)
{
    pthread_mutex_lock(&s->lock);
    bool last = --s->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    if (s->fd >= 0)
        close(s->fd);
    if (s->bell_fd >= 0)
        close(s->bell_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    pthread_mutex_destroy(&s->lock);
    free(s->folder);
    free(s->next);
    free(s);
}

void et_store_stop(et_store *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    et_wake(s->wake_fd);
}

void et_store_release(et_store *s)
{
    if (!s)
        return;
    et_store_stop(s);
    et_store_unref(s);
}

int et_store_bell(const et_store *s)
{
    return s->bell_fd;
}

uint64_t et_store_used(et_store *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t used = (uint64_t)s->used * ET_SLOT;
    pthread_mutex_unlock(&s->lock);
    return used;
}

int et_store_failed(et_store *s)
{
    return atomic_load(&s->failed);
}
