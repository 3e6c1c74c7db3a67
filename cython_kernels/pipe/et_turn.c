/* Turns of generator and decoder on shared CPUs. See et_turn.h. */
#include "et_turn.h"

#include <time.h>

/* The longest wait for the decoder to look at a frame. */
enum { OFFER_NS = 2000000 };

void et_turn_init(et_pipe *p)
{
    pthread_mutex_init(&p->turn_mutex, NULL);
    /* Waits are bounded by the monotonic clock, because the other one may be set. */
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->turn_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void et_turn_free(et_pipe *p)
{
    pthread_cond_destroy(&p->turn_cond);
    pthread_mutex_destroy(&p->turn_mutex);
}

int64_t et_turn_enter(et_pipe *p)
{
    if (!p->turns)
        return 0;
    int64_t t0 = et_now_ns();
    pthread_mutex_lock(&p->turn_mutex);
    while (p->decoding)
        pthread_cond_wait(&p->turn_cond, &p->turn_mutex);
    p->generating = true;
    pthread_mutex_unlock(&p->turn_mutex);
    return et_now_ns() - t0;
}

void et_turn_leave(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->generating = false;
    pthread_cond_signal(&p->turn_cond);
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_offer(et_pipe *p)
{
    if (!p->turns || atomic_load_explicit(&p->pending_frames, memory_order_relaxed) <
                         atomic_load_explicit(&p->wanted, memory_order_relaxed))
        return;
    const uint64_t pushed = atomic_load_explicit(&p->frames_generated, memory_order_relaxed);
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += OFFER_NS;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&p->turn_mutex);
    while (!p->decoding && p->looked < pushed)
        if (pthread_cond_timedwait(&p->turn_cond, &p->turn_mutex, &end))
            break;
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_looked(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->looked = p->taken;
    pthread_cond_broadcast(&p->turn_cond);
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_take(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->decoding = true;
    p->looked = p->taken;
    pthread_cond_broadcast(&p->turn_cond);
    while (p->generating)
        pthread_cond_wait(&p->turn_cond, &p->turn_mutex);
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_give(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->decoding = false;
    pthread_cond_signal(&p->turn_cond);
    pthread_mutex_unlock(&p->turn_mutex);
}
