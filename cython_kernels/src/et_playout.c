/* See et_playout.h.
 *
 *   IDLE -> WAITING (for enough samples) -> PLAYING -> DRAINING -> ENDED
 *              ^--------- ran dry -----------'
 * A new generation leads back to IDLE from anywhere; a failed sink leads to ENDED. */
#include "et_playout.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "et_sink_choice.h"

enum { PIECE = 512, SPIN_LIMIT = 16, SPIN_SLEEP_MS = 5 };

enum state { IDLE, WAITING, PLAYING, DRAINING, ENDED };

struct et_playout {
    int preroll_ms, postroll_ms;

    et_sink_choice choice;     /* shared with the loop */

    /* The thread's own. */
    enum state state;
    uint32_t generation;
    et_sink *sink;             /* of this utterance; NULL before its first block and after its end */
    et_sink *idle;             /* kept open after an utterance */
    int64_t idle_until;        /* ns; -1: for ever */
    bool started;              /* STARTED was posted */
    bool running, paused, gap; /* sink started; sink holds; the sink ran dry and nothing came yet */
    int reason;                /* of the END block */
    int64_t accepted, samples; /* frames the sink took: all, and without the silence around */
    int64_t preroll, postroll; /* frames of silence left to write */
    int64_t preroll_total;
    int64_t underruns;
    int64_t progress_ns, last_heard;
    int16_t piece[PIECE];      /* read from the pipe, not yet taken by the sink */
    size_t have, gone;
};

static const int16_t silence[PIECE];

/* --- shared with the loop ---------------------------------------------------------------------------- */

et_playout *et_playout_new(int preroll_ms, int postroll_ms)
{
    if (preroll_ms < 0 || preroll_ms > 10000 || postroll_ms < 0 || postroll_ms > 10000)
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

/* --- begin and end of an utterance ------------------------------------------------------------------- */

static void close_sink(et_sink *s)
{
    s->ops->close(s);
    atomic_store(&s->in_use, 0);
}

static void close_idle(et_playout *o)
{
    if (!o->idle)
        return;
    et_sink *s = o->idle;
    o->idle = NULL;
    close_sink(s);
    et_choice_let_go(&o->choice);
}

/* First block of a generation: take up its sink. */
static int begin(et_pipe *p, et_playout *o)
{
    et_sink *s;
    if (et_choice_take(&o->choice, p, o->generation, &s) < 0)
        return 0;
    if (o->idle && o->idle != s) {
        close_idle(o);
        if (et_choice_take(&o->choice, p, o->generation, &s) < 0)
            return 0;
    }
    o->idle = NULL;
    if (!s)
        return -ENODEV;
    o->sink = s;
    atomic_store(&s->in_use, 1);
    o->started = o->running = o->paused = o->gap = false;
    o->reason = ET_REASON_NONE;
    o->accepted = o->samples = o->underruns = o->last_heard = 0;
    o->have = o->gone = 0;
    o->preroll = o->preroll_total = s->paced ? (int64_t)s->rate * o->preroll_ms / 1000 : 0;
    o->postroll = s->paced ? (int64_t)s->rate * o->postroll_ms / 1000 : 0;
    o->state = WAITING;
    return 0;
}

/* Samples of the utterance that were heard; what a failing sink does not tell counts as heard. */
static int64_t heard(et_playout *o)
{
    int64_t delay = 0, n;
    if (!o->sink || !o->sink->is_open)
        return 0;
    if (o->sink->ops->delay(o->sink, &delay) < 0)
        delay = 0;
    n = o->accepted - delay - o->preroll_total;
    return n < 0 ? 0 : n > o->samples ? o->samples : n;
}

/* The sink is silent: keep it open for a while, or close it, and tell. */
static void end(et_pipe *p, et_playout *o, int event, int reason, int64_t value)
{
    et_sink *s = o->sink;
    o->sink = NULL;
    o->state = ENDED;
    o->paused = false;
    o->have = o->gone = 0;
    if (s && s->is_open && s->keep_open_ms != 0 && event != ET_EV_DEVICE) {
        o->idle = s;
        o->idle_until = s->keep_open_ms < 0 ? -1 : et_now_ns() + (int64_t)s->keep_open_ms * 1000000;
    } else if (s) {
        close_sink(s);
        et_choice_let_go(&o->choice);
    }
    et_pipe_post(p, &p->playout_events, o->generation, event, reason, value);
}

static void fail(et_pipe *p, et_playout *o, int err)
{
    if (o->sink && o->sink->is_open)
        o->sink->ops->drop(o->sink);
    end(p, o, ET_EV_DEVICE, ET_DEVICE, err);
}

static void change_generation(et_pipe *p, et_playout *o, uint32_t live)
{
    if (o->generation && o->state != ENDED) {
        int64_t n = heard(o);
        if (o->sink && o->sink->is_open)
            o->sink->ops->drop(o->sink);
        end(p, o, ET_EV_DROPPED, ET_ABORTED, n);
    }
    /* Generations that came and went while the thread was busy have ended too. */
    for (uint32_t g = o->generation + 1; et_choice_reached(live, g) && g != live; g++)
        if (g)
            et_pipe_post(p, &p->playout_events, g, ET_EV_DROPPED, ET_ABORTED, 0);
    o->generation = live;
    o->state = IDLE;
}

/* --- playing ----------------------------------------------------------------------------------------- */

/* Whether the end of the utterance is in the pipe: it is the last block of its generation. */
static bool end_waits(et_pipe *p, uint32_t generation)
{
    et_block last;
    return et_pipe_last(p, &last) && last.kind == ET_BLOCK_END && last.generation == generation;
}

static int64_t threshold(et_pipe *p, const et_playout *o)
{
    if (!o->sink->paced)
        return 1;
    int64_t n = atomic_load_explicit(&p->start_samples, memory_order_relaxed);
    /* More than ring and backpressure let in would be waited for in vain. */
    if (n > (int64_t)p->pcm.capacity)
        n = (int64_t)p->pcm.capacity;
    int64_t limit = atomic_load_explicit(&p->limit, memory_order_relaxed);
    if (n > limit)
        n = limit;
    return n > 1 ? n : 1;
}

/* The sink stopped because it had nothing to play. */
static void went_dry(et_playout *o)
{
    o->running = false;
    o->gap = true;
    o->state = WAITING;
}

/* PCM follows on a gap, so it was one that can be heard. */
static void count_gap(et_pipe *p, et_playout *o)
{
    o->gap = false;
    o->underruns++;
    atomic_fetch_add_explicit(&p->underruns, 1, memory_order_relaxed);
    et_pipe_post(p, &p->playout_events, o->generation, ET_EV_UNDERRUN, 0, o->underruns);
}

enum step { SLEEP, AGAIN, SLEEP_FOR_SINK };

static enum step wait_for_samples(et_pipe *p, et_playout *o)
{
    et_block front;
    bool got = et_pipe_front(p, &front) == 1;
    int64_t waiting = (int64_t)(o->have - o->gone) + (got ? (int64_t)et_pipe_buffered(p) : 0);
    bool last = got && end_waits(p, o->generation);
    if (got && front.generation != o->generation)
        return AGAIN;
    bool nothing_more = got && front.kind == ET_BLOCK_END && o->have == o->gone;
    if (o->gap && waiting > 0 && !nothing_more)
        count_gap(p, o);
    if (!last && waiting < threshold(p, o))
        return SLEEP;
    if (nothing_more && o->accepted == 0 && o->sink->paced) {
        /* Nothing to play: the device stays as it is. */
        et_pipe_consume_end(p);
        end(p, o, ET_EV_FINISHED, front.reason, 0);
        return AGAIN;
    }
    int err = o->sink->ops->open(o->sink);
    if (err < 0) {
        fail(p, o, err);
        return AGAIN;
    }
    o->state = PLAYING;
    o->progress_ns = et_now_ns();
    return AGAIN;
}

/* Frames for the sink: silence before, samples, silence after. Their number; 0 when the pipe is dry; -1 at the
 * end of the utterance. */
static int next_frames(et_pipe *p, et_playout *o, const int16_t **frames)
{
    et_block front;
    *frames = silence;
    if (o->preroll > 0)
        return (int)(o->preroll < PIECE ? o->preroll : PIECE);
    if (o->have == o->gone) {
        if (!et_pipe_front(p, &front) || front.generation != o->generation)
            return 0;
        if (front.kind == ET_BLOCK_END) {
            if (o->postroll > 0 && o->samples > 0)
                return (int)(o->postroll < PIECE ? o->postroll : PIECE);
            o->reason = front.reason;
            et_pipe_consume_end(p);
            return -1;
        }
        o->gone = 0;
        o->have = et_pipe_read(p, o->piece, PIECE);
    }
    *frames = o->piece + o->gone;
    return (int)(o->have - o->gone);
}

static void took(et_pipe *p, et_playout *o, const int16_t *frames, int n)
{
    o->accepted += n;
    o->progress_ns = et_now_ns();
    if (frames != silence) {
        o->gone += (size_t)n;
        o->samples += n;
        atomic_fetch_add_explicit(&p->samples_out, (uint64_t)n, memory_order_relaxed);
    } else if (o->preroll > 0) {
        o->preroll -= n;
    } else {
        o->postroll -= n;
    }
}

/* Make the sink sound, and tell when samples are on their way. 0 or an error of the sink. */
static int start(et_pipe *p, et_playout *o)
{
    if (!o->running && o->accepted > 0) {
        int err = o->sink->ops->start(o->sink);
        if (err < 0)
            return err;
        o->running = true;
    }
    if (o->running && !o->started && o->samples > 0) {
        o->started = true;
        et_pipe_post(p, &p->playout_events, o->generation, ET_EV_STARTED, 0,
                     o->samples + (int64_t)(o->have - o->gone) + (int64_t)et_pipe_buffered(p));
    }
    return 0;
}

static enum step sink_error(et_pipe *p, et_playout *o, int err)
{
    if (err == ET_SINK_XRUN)
        went_dry(o);
    else
        fail(p, o, err);
    return AGAIN;
}

static bool interrupted(et_pipe *p, const et_playout *o)
{
    return !et_pipe_live(p, o->generation) || atomic_load_explicit(&p->paused, memory_order_acquire) ||
           atomic_load_explicit(&p->stop, memory_order_acquire);
}

static enum step play(et_pipe *p, et_playout *o, int *timeout_ms)
{
    et_sink *s = o->sink;
    const int16_t *frames;
    int n, err;
    for (;;) {
        if (interrupted(p, o))
            return AGAIN;
        n = next_frames(p, o, &frames);
        if (n <= 0)
            break;
        int got = s->ops->write(s, frames, (size_t)n);
        if (got < 0)
            return sink_error(p, o, got);
        if (got == 0)
            break;
        took(p, o, frames, got);
    }
    if (n < 0) {
        o->state = DRAINING;
        o->progress_ns = et_now_ns();
        if ((err = s->ops->finish(s)) < 0 || (err = start(p, o)) < 0) {
            if (err != ET_SINK_XRUN)
                fail(p, o, err);
        }
        return AGAIN;
    }
    if ((err = start(p, o)) < 0)
        return sink_error(p, o, err);
    if (n > 0)
        return SLEEP_FOR_SINK;
    /* The pipe is dry: look again when the device is about to be. */
    int64_t delay = 0;
    if ((err = s->ops->delay(s, &delay)) < 0)
        return sink_error(p, o, err);
    if (delay > 0)
        *timeout_ms = (int)(delay * 1000 / s->rate) + 1;
    return SLEEP;
}

static enum step drain(et_pipe *p, et_playout *o)
{
    int done = o->sink->ops->drained(o->sink);
    if (done < 0) {
        fail(p, o, done);
        return AGAIN;
    }
    if (done == 0)
        return SLEEP_FOR_SINK;
    end(p, o, ET_EV_FINISHED, o->reason, o->samples);
    return AGAIN;
}

/* Follow the paused flag. True while the sink is held. */
static bool follow_pause(et_pipe *p, et_playout *o)
{
    bool wanted = atomic_load_explicit(&p->paused, memory_order_acquire) != 0;
    if (o->state != PLAYING && o->state != DRAINING && !o->paused)
        /* Not sounding: only a start is held back. */
        return wanted && o->state == WAITING;
    if (wanted != o->paused) {
        int err = o->sink->ops->pause(o->sink, wanted);
        o->paused = wanted;
        o->progress_ns = et_now_ns();
        if (err == ET_SINK_XRUN)
            o->running = false;
        else if (err < 0)
            fail(p, o, err);
    }
    return o->paused;
}

/* Throw away what still comes of a generation that has ended. */
static enum step discard(et_pipe *p, et_playout *o)
{
    et_block front;
    while (et_pipe_front(p, &front) && front.generation == o->generation) {
        if (front.kind == ET_BLOCK_END)
            et_pipe_consume_end(p);
        else
            et_pipe_read(p, o->piece, PIECE);
        if (interrupted(p, o))
            return AGAIN;
    }
    return SLEEP;
}

static enum step step(et_pipe *p, et_playout *o, int *timeout_ms)
{
    et_block front;
    uint32_t live = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (live != o->generation)
        change_generation(p, o, live);
    if (follow_pause(p, o))
        return SLEEP;
    switch (o->state) {
    case IDLE: {
        if (!et_pipe_front(p, &front))
            return SLEEP;
        int err = front.generation == o->generation ? begin(p, o) : 0;
        if (err < 0)
            fail(p, o, err);
        return AGAIN;
    }
    case WAITING: return wait_for_samples(p, o);
    case PLAYING: return play(p, o, timeout_ms);
    case DRAINING: return drain(p, o);
    case ENDED: break;
    }
    return discard(p, o);
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
    if (s->ops->delay(s, &delay) == 0 && o->accepted - delay != o->last_heard) {
        o->last_heard = o->accepted - delay;
        o->progress_ns = now;
        return false;
    }
    return true;
}

static void sleep_until_woken(et_pipe *p, et_playout *o, enum step why, int timeout_ms, int *spins)
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
            fail(p, o, err);
    }
    if (o->idle && o->idle_until >= 0 && et_now_ns() >= o->idle_until)
        close_idle(o);
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
    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        int timeout_ms = -1;
        atomic_fetch_add_explicit(&p->playout_beat, 1, memory_order_relaxed);
        enum step next = step(p, o, &timeout_ms);
        if (o->accepted != taken) {
            taken = o->accepted;
            spins = 0;
        }
        if (next == AGAIN)
            continue;
        if (next == SLEEP_FOR_SINK && stalled(o)) {
            fail(p, o, -ETIMEDOUT);
            continue;
        }
        sleep_until_woken(p, o, next, timeout_ms, &spins);
    }
    if (o->sink) {
        if (o->sink->is_open)
            o->sink->ops->drop(o->sink);
        close_sink(o->sink);
        o->sink = NULL;
        et_choice_let_go(&o->choice);
    }
    close_idle(o);

    struct timespec none = {0, 0};
    while (sigtimedwait(&sigpipe, NULL, &none) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
