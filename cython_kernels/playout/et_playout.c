/* The playout thread's life: wake, step, sleep. See et_playout.h and et_playout_step.h. */
#include "et_playout.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "et_playout_step.h"

enum { SPIN_LIMIT = 16, SPIN_SLEEP_MS = 5 };

/* --- shared with the loop ---------------------------------------------------------------------------- */

et_playout *et_playout_new(int preroll_ms, int postroll_ms)
{
    if (preroll_ms < 0 || preroll_ms > ET_MAX_ROLL_MS || postroll_ms < 0 || postroll_ms > ET_MAX_ROLL_MS)
        return NULL;
    et_playout *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->preroll_ms = preroll_ms;
    o->postroll_ms = postroll_ms;
    et_choice_init(&o->choice);
    return o;
}

void et_playout_free(et_playout *o)
{
    if (o) {
        et_choice_free(&o->choice);
        free(o);
    }
}

void et_playout_set_sink(et_pipe *p, et_playout *o, et_sink *sink)
{
    et_choice_set(&o->choice, p, sink);
}

bool et_playout_uses(et_playout *o, const et_sink *sink)
{
    return et_choice_uses(&o->choice, sink);
}

/* --- the thread -------------------------------------------------------------------------------------- */

static bool stalled(et_playout *o)
{
    et_sink *s = o->sink;
    if (!s || s->stall_ms <= 0 || o->paused)
        return false;
    /* Something was heard since the last look: progress too. */
    int64_t delay, now = et_now_ns();
    if (now - o->progress_ns < (int64_t)s->stall_ms * 1000000)
        return false;
    int err = s->ops->delay(s, &delay);
    if (err == ET_SINK_XRUN) {
        /* All was heard after all: the next step starts it again. */
        o->running = false;
        o->progress_ns = now;
        return false;
    }
    if (err == 0 && o->accepted - delay != o->last_heard) {
        o->last_heard = o->accepted - delay;
        o->progress_ns = now;
        return false;
    }
    return true;
}

static void sleep_until_woken(et_pipe *p, et_playout *o, enum et_playout_next why, int timeout_ms, int *spins)
{
    struct pollfd fds[1 + ET_SINK_MAX_FDS] = {{.fd = p->playout_fd, .events = POLLIN}};
    int n = 0;
    et_sink *s = o->sink;
    if (s && s->is_open && *spins < SPIN_LIMIT)
        n = s->ops->poll(s, fds + 1, ET_SINK_MAX_FDS, why == SLEEP_FOR_SINK, &timeout_ms);
    if (*spins >= SPIN_LIMIT && (timeout_ms < 0 || timeout_ms > SPIN_SLEEP_MS))
        timeout_ms = SPIN_SLEEP_MS;
    if (why == SLEEP_FOR_SINK && s->stall_ms > 0 && (timeout_ms < 0 || timeout_ms > s->stall_ms))
        timeout_ms = s->stall_ms;
    if (o->idle && o->idle_until >= 0) {
        int64_t left = (o->idle_until - et_now_ns()) / 1000000 + 1;
        left = left < 0 ? 0 : left > 60000 ? 60000 : left;
        if (timeout_ms < 0 || left < timeout_ms)
            timeout_ms = (int)left;
    }
    int64_t before = et_now_ns();
    int r = poll(fds, (nfds_t)(1 + n), timeout_ms);
    /* A device whose descriptors are always ready although it takes nothing must not cost a CPU. */
    bool at_once = r > 0 && n > 0 && !(fds[0].revents & POLLIN) && et_now_ns() - before < 500000;
    *spins = *spins >= SPIN_LIMIT || !at_once ? 0 : *spins + 1;
    if (fds[0].revents & POLLIN) {
        uint64_t count;
        if (read(p->playout_fd, &count, sizeof count) < 0)
            count = 0;
    }
    if (r > 0 && n > 0 && s->ops->polled) {
        int err = s->ops->polled(s, fds + 1, n);
        if (err < 0)
            et_playout_fail(p, o, err);
    }
    if (o->idle && o->idle_until >= 0 && et_now_ns() >= o->idle_until)
        et_playout_close_idle(o);
}

void et_playout_loop(et_pipe *p, et_playout *o)
{
    /* A pipe whose reader has gone is an error to report, not a signal. */
    sigset_t sigpipe, old;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &old);

    o->state = IDLE;
    o->generation = 0;
    int spins = 0;
    int64_t taken = -1;
    while (!et_pipe_stopping(p)) {
        int timeout_ms = -1;
        atomic_fetch_add_explicit(&p->playout_beat, 1, memory_order_relaxed);
        enum et_playout_next next = et_playout_step(p, o, &timeout_ms);
        if (o->accepted != taken) {
            taken = o->accepted;
            spins = 0;
        }
        if (next == AGAIN)
            continue;
        if (next == SLEEP_FOR_SINK && stalled(o)) {
            et_playout_fail(p, o, -ETIMEDOUT);
            continue;
        }
        sleep_until_woken(p, o, next, timeout_ms, &spins);
    }
    et_playout_leave(o);

    struct timespec none = {0, 0};
    while (sigtimedwait(&sigpipe, NULL, &none) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
