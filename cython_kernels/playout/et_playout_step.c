/* See et_playout_step.h. */
#include "et_playout_step.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "et_fade.h"
#include "schedule/et_start.h"

/* FADE_LIMIT_MS: a fade that takes longer is cut. LOUD: a last sample below this ends without a click. */
enum { FADE_LIMIT_MS = 70, LOUD = 64 };

static const int16_t silence[ET_PLAYOUT_PIECE];

/* --- begin and end of an utterance ------------------------------------------------------------------- */

static void close_sink(et_sink *s)
{
    s->ops->close(s);
    atomic_store(&s->in_use, 0);
}

void et_playout_close_idle(et_playout *o)
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
        et_playout_close_idle(o);
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
    memset(o->past, 0, sizeof o->past);
    o->tail = 0;
    o->tail_total = -1;
    o->fading = false;
    o->state = WAITING;
    return 0;
}

/* Samples of the utterance that were heard; what a failing sink does not tell counts as heard. */
static int64_t heard(et_playout *o)
{
    int64_t delay = 0, n;
    if (!o->sink || !o->sink->is_open)
        return 0;
    o->sink->ops->delay(o->sink, &delay);
    n = o->accepted - delay - o->preroll_total;
    return n < 0 ? 0 : n > o->samples ? o->samples : n;
}

/* The sink is silent: keep it open for a while, or close it, and tell. */
static void end(et_pipe *p, et_playout *o, int event, int reason, int64_t value)
{
    et_sink *s = o->sink;
    o->sink = NULL;
    o->state = ENDED;
    o->paused = o->fading = false;
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

void et_playout_fail(et_pipe *p, et_playout *o, int err)
{
    if (o->sink && o->sink->is_open)
        o->sink->ops->drop(o->sink);
    end(p, o, ET_EV_DEVICE, ET_DEVICE, err);
}

/* Let what sounds fade before it is stopped. 1 while it does, and the sink is not to be written then; 0 when it is
 * over or there is none; or the sink's error. */
static int fades(et_playout *o)
{
    et_sink *s = o->sink;
    int64_t now = et_now_ns();
    if (!o->fading) {
        int err = s && s->is_open && s->ops->fade && (o->running || o->state == DRAINING) && !o->paused ? s->ops->fade(s) : 0;
        if (err == ET_SINK_XRUN)
            o->running = false;
        if (err <= 0)
            return err;
        o->fading = true;
        o->fade_until = now + (int64_t)FADE_LIMIT_MS * 1000000;
    }
    o->fading = !s->ops->faded(s) && now < o->fade_until;
    return o->fading;
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
    return et_start_threshold(atomic_load_explicit(&p->start_samples, memory_order_relaxed), (int64_t)p->pcm.capacity,
                              atomic_load_explicit(&p->limit, memory_order_relaxed));
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

static enum et_playout_next wait_for_samples(et_pipe *p, et_playout *o)
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
        et_playout_fail(p, o, err);
        return AGAIN;
    }
    o->state = PLAYING;
    o->progress_ns = et_now_ns();
    return AGAIN;
}

/* Where the last sample is loud, the sound goes on for a moment as its own mirror image, fading: no step, and nothing
 * of it is changed or lost. */
static void make_tail(et_playout *o)
{
    int64_t n = (int64_t)o->sink->rate * o->sink->fade_ms / 1000;
    if (n > ET_PLAYOUT_PIECE - 1)
        n = ET_PLAYOUT_PIECE - 1;
    if (!o->sink->paced || abs(o->past[ET_PLAYOUT_PIECE - 1]) < LOUD)
        n = 0;
    for (int64_t i = 0; i < n; i++)
        o->echo[i] = et_fade_s16(o->past[ET_PLAYOUT_PIECE - 2 - i], i, n, false);
    o->tail = o->tail_total = n;
}

/* Frames for the sink: silence before, samples, their tail, silence after. Their number; 0 when the pipe is dry; -1 at the
 * end of the utterance. */
static int next_frames(et_pipe *p, et_playout *o, const int16_t **frames)
{
    et_block front;
    *frames = silence;
    if (o->preroll > 0)
        return (int)(o->preroll < ET_PLAYOUT_PIECE ? o->preroll : ET_PLAYOUT_PIECE);
    while (o->have == o->gone) {
        if (!et_pipe_front(p, &front) || front.generation != o->generation)
            return 0;
        if (front.kind == ET_BLOCK_END) {
            if (o->samples > 0 && o->tail_total < 0)
                make_tail(o);
            if (o->gap)
                o->tail = o->tail_total = 0; /* after silence an echo would be a click of its own */
            if (o->tail > 0) {
                *frames = o->echo + o->tail_total - o->tail;
                return (int)o->tail;
            }
            if (o->postroll > 0 && o->samples > 0)
                return (int)(o->postroll < ET_PLAYOUT_PIECE ? o->postroll : ET_PLAYOUT_PIECE);
            o->reason = front.reason;
            et_pipe_consume_end(p);
            return -1;
        }
        if (front.kind == ET_BLOCK_MARK) {
            et_pipe_consume_end(p);
            et_pipe_post_mark(p, &p->playout_events, o->generation, o->samples, &front.mark);
            continue;
        }
        /* The silent rest of what has run away is read and forgotten. */
        int64_t may = o->sink->paced ? INT64_MAX : et_pipe_may_have(p, o->generation);
        if (may <= o->samples) {
            et_pipe_hold_back(p, o->generation);
            return 0;
        }
        int64_t left = et_pipe_keep(p, o->generation) - o->samples, most = may - o->samples;
        if (left > 0 && left < most)
            most = left;
        size_t n = et_pipe_read(p, o->piece, most < ET_PLAYOUT_PIECE ? (size_t)most : ET_PLAYOUT_PIECE);
        o->gone = 0;
        o->have = left > 0 ? n : 0;
    }
    *frames = o->piece + o->gone;
    return (int)(o->have - o->gone);
}

static void took(et_pipe *p, et_playout *o, const int16_t *frames, int n)
{
    o->accepted += n;
    o->progress_ns = et_now_ns();
    if (o->tail > 0) {
        o->tail -= n;
    } else if (frames != silence) {
        memmove(o->past, o->past + n, (size_t)(ET_PLAYOUT_PIECE - n) * sizeof *o->past);
        memcpy(o->past + ET_PLAYOUT_PIECE - n, frames, (size_t)n * sizeof *o->past);
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

static enum et_playout_next sink_error(et_pipe *p, et_playout *o, int err)
{
    if (err == ET_SINK_XRUN)
        went_dry(o);
    else
        et_playout_fail(p, o, err);
    return AGAIN;
}

static bool interrupted(et_pipe *p, const et_playout *o)
{
    return !et_pipe_live(p, o->generation) || atomic_load_explicit(&p->paused, memory_order_acquire) ||
           et_pipe_stopping(p);
}

static enum et_playout_next play(et_pipe *p, et_playout *o, int *timeout_ms)
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
                et_playout_fail(p, o, err);
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

static enum et_playout_next drain(et_pipe *p, et_playout *o)
{
    int done = o->sink->ops->drained(o->sink);
    if (done < 0) {
        et_playout_fail(p, o, done);
        return AGAIN;
    }
    if (done == 0)
        return SLEEP_FOR_SINK;
    end(p, o, ET_EV_FINISHED, o->reason, o->samples);
    return AGAIN;
}

/* Follow the paused flag. True while the sink is held, or fades before that. */
static bool follow_pause(et_pipe *p, et_playout *o)
{
    bool wanted = atomic_load_explicit(&p->paused, memory_order_acquire) != 0;
    if (o->state != PLAYING && o->state != DRAINING && !o->paused)
        /* Not sounding: only a start is held back. */
        return wanted && o->state == WAITING;
    /* A fade that has begun ends in a pause, however short. */
    bool fading = o->fading;
    int err = !o->paused && (wanted || fading) ? fades(o) : 0;
    if (err > 0)
        return true;
    wanted |= fading;
    if (wanted != o->paused) {
        if (err >= 0 || err == ET_SINK_XRUN)
            err = o->sink->ops->pause(o->sink, wanted);
        o->paused = wanted;
        o->progress_ns = et_now_ns();
        if (err == ET_SINK_XRUN)
            o->running = false;
        else if (err < 0)
            et_playout_fail(p, o, err);
    }
    return o->paused;
}

/* Throw away what still comes of a generation that has ended. */
static enum et_playout_next discard(et_pipe *p, et_playout *o)
{
    et_block front;
    while (et_pipe_front(p, &front) && front.generation == o->generation) {
        if (front.kind != ET_BLOCK_PCM)
            et_pipe_consume_end(p);
        else
            et_pipe_read(p, o->piece, ET_PLAYOUT_PIECE);
        if (interrupted(p, o))
            return AGAIN;
    }
    return SLEEP;
}

enum et_playout_next et_playout_step(et_pipe *p, et_playout *o, int *timeout_ms)
{
    et_block front;
    uint32_t live = atomic_load_explicit(&p->generation, memory_order_acquire);
    if (live != o->generation) {
        if (fades(o) > 0)
            return SLEEP_FOR_SINK;
        change_generation(p, o, live);
    }
    if (follow_pause(p, o)) {
        if (o->fading)
            return SLEEP_FOR_SINK;
        /* Resumed during the fade: the wake-up for that is gone. */
        return o->paused && !atomic_load_explicit(&p->paused, memory_order_acquire) ? AGAIN : SLEEP;
    }
    switch (o->state) {
    case IDLE: {
        if (!et_pipe_front(p, &front))
            return SLEEP;
        int err = front.generation == o->generation ? begin(p, o) : 0;
        if (err < 0)
            et_playout_fail(p, o, err);
        return AGAIN;
    }
    case WAITING: return wait_for_samples(p, o);
    case PLAYING: return play(p, o, timeout_ms);
    case DRAINING: return drain(p, o);
    case ENDED: break;
    }
    return discard(p, o);
}

void et_playout_leave(et_playout *o)
{
    if (o->sink) {
        if (o->sink->is_open)
            o->sink->ops->drop(o->sink);
        close_sink(o->sink);
        o->sink = NULL;
        et_choice_let_go(&o->choice);
    }
    et_playout_close_idle(o);
}
