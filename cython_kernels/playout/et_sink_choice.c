/* See et_sink_choice.h. */
#include "et_sink_choice.h"

#include <errno.h>
#include <string.h>

void et_choice_init(et_sink_choice *c)
{
    memset(c, 0, sizeof *c);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    /* The thread may run at real-time priority, the loop does not. */
    pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&c->lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

void et_choice_free(et_sink_choice *c)
{
    pthread_mutex_destroy(&c->lock);
}

void et_choice_set(et_sink_choice *c, const et_pipe *p, et_sink *sink)
{
    uint32_t live = atomic_load(&p->generation);
    pthread_mutex_lock(&c->lock);
    if (et_choice_reached(live, c->next_from))
        c->assigned = c->next;
    c->next = sink;
    c->next_from = live + 1 ? live + 1 : 1;
    pthread_mutex_unlock(&c->lock);
}

bool et_choice_uses(et_sink_choice *c, const et_sink *sink)
{
    pthread_mutex_lock(&c->lock);
    bool uses = sink && (sink == c->assigned || sink == c->next || sink == c->held);
    pthread_mutex_unlock(&c->lock);
    return uses;
}

int et_choice_take(et_sink_choice *c, const et_pipe *p, uint32_t generation, et_sink **sink)
{
    pthread_mutex_lock(&c->lock);
    /* For a generation that has passed the answer may be wrong: the loop has chosen for a later one already. */
    bool live = et_pipe_live(p, generation);
    if (live) {
        if (et_choice_reached(generation, c->next_from))
            c->assigned = c->next;
        *sink = c->assigned;
        if (!c->held)
            c->held = *sink;
    }
    pthread_mutex_unlock(&c->lock);
    return live ? 0 : -ESTALE;
}

void et_choice_let_go(et_sink_choice *c)
{
    pthread_mutex_lock(&c->lock);
    c->held = NULL;
    pthread_mutex_unlock(&c->lock);
}
