/* See et_frames.h. */
#include "et_frames.h"

#include <poll.h>
#include <string.h>

int et_frames_alive(const et_pipe *p, uint32_t generation)
{
    if (et_pipe_stopping(p))
        return ET_E_STOPPED;
    return et_pipe_live(p, generation) ? ET_OK : ET_E_STALE;
}

int et_frames_begin(et_frames *f, et_pipe *pipe, const et_bounds *bounds)
{
    memset(f, 0, sizeof *f);
    f->pipe = pipe;
    f->bounds = *bounds;
    et_repeat_begin(&f->repeat, bounds->repeat_frames, bounds->repeat_period);
    f->item.generation = bounds->generation;
    int err = et_frames_alive(pipe, bounds->generation);
    if (err)
        return err;
    f->item.kind = ET_ITEM_SEG_BEGIN;
    f->item.arg = bounds->drop_frames;
    err = et_pipe_push_item(pipe, &f->item);
    f->item.kind = ET_ITEM_FRAME;
    return err;
}

int et_frames_admit(et_frames *f, int c0)
{
    if (f->frames >= f->bounds.max_frames)
        return ET_LIMIT;
    return !f->bounds.end_frames && et_repeat_code(&f->repeat, c0) ? ET_RUNAWAY : 0;
}

int et_frames_push(et_frames *f, int64_t cost_ns)
{
    const int64_t t0 = et_now_ns();
    /* Rounded up, because 0 is what is not known. */
    f->item.arg = cost_ns > 0 ? (int32_t)(cost_ns / 1000 < INT32_MAX ? cost_ns / 1000 + 1 : INT32_MAX) : 0;
    int err = et_pipe_push_item(f->pipe, &f->item);
    if (err)
        return err;
    et_turn_offer(f->pipe);
    const int64_t t1 = et_now_ns();
    f->wait_ns += t1 - t0;
    if (!f->first_ns)
        f->first_ns = t1;
    f->frames++;
    return ET_OK;
}

int et_frames_end(et_frames *f)
{
    et_item item = {.generation = f->bounds.generation, .kind = ET_ITEM_SEG_END};
    return et_pipe_push_item(f->pipe, &item);
}

int et_frames_wait(et_pipe *p, uint32_t generation, int fd, int timeout_ms)
{
    const int64_t end = et_now_ns() + (int64_t)timeout_ms * 1000000;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = p->generator_fd, .events = POLLIN}};
    for (;;) {
        atomic_fetch_add_explicit(&p->generator_beat, 1, memory_order_relaxed);
        int err = et_frames_alive(p, generation);
        if (err)
            return err;
        int64_t left = (end - et_now_ns() + 999999) / 1000000;
        if (poll(fds, 2, left < 0 ? 0 : left < ET_WAIT_MS ? (int)left : ET_WAIT_MS) > 0) {
            if (fds[0].revents)
                return 1;
            et_wait(p->generator_fd, 0);
        }
        if (left <= 0)
            return et_frames_alive(p, generation);
    }
}

int et_frames_doze(et_pipe *p, uint32_t generation)
{
    atomic_fetch_add_explicit(&p->generator_beat, 1, memory_order_relaxed);
    int err = et_frames_alive(p, generation);
    if (err)
        return err;
    et_wait(p->generator_fd, ET_WAIT_MS);
    return et_frames_alive(p, generation);
}

int et_frames_reason(int error)
{
    switch (error) {
    case ET_OK:
        return ET_COMPLETED;
    case ET_E_STALE:
    case ET_E_STOPPED:
        return ET_ABORTED;
    case ET_E_RUNAWAY:
        return ET_RUNAWAY;
    default:
        return ET_ERROR;
    }
}
