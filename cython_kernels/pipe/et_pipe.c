/* The pipe between generator, decoder, playout and loop. See et_pipe.h. */
#include "et_pipe.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { GENERATOR_STEPS = 4096, DECODER_STEPS = 2048, EVENT_CAPACITY = 256, BLOCK_CAPACITY = 4096 };

static void release(et_pipe *p);

static int init(et_pipe *p, const et_pipe_config *config)
{
    p->generator_fd = p->decoder_fd = p->playout_fd = p->loop_fd = -1;
    if (config->groups < 1 || config->groups > ET_MAX_GROUPS || config->samples_per_frame < 1 ||
        config->samples_per_frame > ET_MAX_SPF || config->sample_rate < 1000 || config->backpressure < 1)
        return ET_E_ARG;
    p->config = *config;
    int err;
    if ((err = et_ring_init(&p->items, sizeof(et_item), config->codes_capacity)) ||
        (err = et_ring_init(&p->blocks, sizeof(et_block), BLOCK_CAPACITY)) ||
        (err = et_ring_init(&p->pcm, sizeof(int16_t), config->pcm_capacity)) ||
        (err = et_ring_init(&p->decoder_events, sizeof(et_event), EVENT_CAPACITY)) ||
        (err = et_ring_init(&p->playout_events, sizeof(et_event), EVENT_CAPACITY))) {
        release(p);
        return err;
    }
    int *fds[] = {&p->generator_fd, &p->decoder_fd, &p->playout_fd, &p->loop_fd};
    for (size_t i = 0; i < 4; i++)
        if ((*fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
            release(p);
            return ET_E_MEMORY;
        }
    et_turn_init(p);
    atomic_store(&p->start_samples, 1);
    atomic_store(&p->min_start, 1);
    atomic_store(&p->limit, config->backpressure);
    atomic_store(&p->gain, 1.0f);
    return ET_OK;
}

static void release(et_pipe *p)
{
    et_ring *rings[] = {&p->items, &p->blocks, &p->pcm, &p->decoder_events, &p->playout_events,
                        &p->generator_steps, &p->decoder_steps};
    for (size_t i = 0; i < 7; i++)
        et_ring_free(rings[i]);
    int *fds[] = {&p->generator_fd, &p->decoder_fd, &p->playout_fd, &p->loop_fd};
    for (size_t i = 0; i < 4; i++)
        if (*fds[i] >= 0) {
            close(*fds[i]);
            *fds[i] = -1;
        }
}

et_pipe *et_pipe_create(const et_pipe_config *config, int *err)
{
    /* The rings' counters are cache-line aligned, which calloc does not promise. */
    size_t size = (sizeof(et_pipe) + 63) / 64 * 64;
    et_pipe *p = aligned_alloc(64, size);
    if (!p) {
        *err = ET_E_MEMORY;
        return NULL;
    }
    memset(p, 0, size);
    *err = init(p, config);
    if (*err) {
        free(p);
        return NULL;
    }
    return p;
}

void et_pipe_destroy(et_pipe *p)
{
    if (p) {
        et_turn_free(p);
        release(p);
        free(p);
    }
}

uint32_t et_pipe_next_generation(et_pipe *p)
{
    uint32_t g = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
    if (g == 0)
        g = 1;
    atomic_store_explicit(&p->generation, g, memory_order_release);
    et_pipe_wake_all(p);
    return g;
}

void et_pipe_stop(et_pipe *p)
{
    atomic_store_explicit(&p->stop, 1, memory_order_release);
    et_pipe_wake_all(p);
}

void et_pipe_set_paused(et_pipe *p, bool paused)
{
    atomic_store_explicit(&p->paused, paused, memory_order_release);
    et_pipe_wake_all(p);
}

static int64_t backlog(const et_pipe *p)
{
    int64_t frames = atomic_load_explicit(&p->pending_frames, memory_order_acquire);
    return frames * p->config.samples_per_frame + (int64_t)et_ring_used(&p->pcm);
}

int et_pipe_push_item(et_pipe *p, const et_item *item)
{
    bool frame = item->kind == ET_ITEM_FRAME;
    for (;;) {
        if (et_pipe_stopping(p))
            return ET_E_STOPPED;
        if (!et_pipe_live(p, item->generation))
            return ET_E_STALE;
        if (frame && et_pipe_ran_away(p, item->generation))
            return ET_E_RUNAWAY;
        /* The generator goes on while playout is held back, because the decoder needs more frames to decide. */
        bool held = atomic_load_explicit(&p->held_back, memory_order_acquire) == item->generation &&
                    et_pipe_may_have(p, item->generation) < INT64_MAX;
        bool full = frame && !held && backlog(p) >= atomic_load_explicit(&p->limit, memory_order_acquire);
        if (et_ring_space(&p->items) > 0 && !full)
            break;
        atomic_fetch_add_explicit(&p->generator_beat, 1, memory_order_relaxed);
        et_wait(p->generator_fd, ET_WAIT_MS);
    }
    /* Counted before it can be seen, so that the count never goes below zero. */
    if (frame) {
        atomic_fetch_add_explicit(&p->pending_frames, 1, memory_order_acq_rel);
        atomic_fetch_add_explicit(&p->frames_generated, 1, memory_order_relaxed);
    }
    et_ring_write(&p->items, item, 1);
    et_wake(p->decoder_fd);
    return ET_OK;
}

int et_pipe_pop_item(et_pipe *p, et_item *item, int timeout_ms)
{
    for (;;) {
        /* Playout wakes the decoder every period: waiting without an item is life, too. */
        atomic_fetch_add_explicit(&p->decoder_beat, 1, memory_order_relaxed);
        if (et_pipe_stopping(p))
            return ET_E_STOPPED;
        while (et_ring_read(&p->items, item, 1)) {
            if (item->kind == ET_ITEM_FRAME) {
                atomic_fetch_sub_explicit(&p->pending_frames, 1, memory_order_acq_rel);
                p->taken++;
            }
            et_wake(p->generator_fd);
            if (et_pipe_live(p, item->generation))
                return 1;
        }
        et_turn_looked(p);
        if (!et_wait(p->decoder_fd, timeout_ms))
            return 0;
    }
}

/* Underruns and sentences have no bound of their own: they may fill half of the queue; the next one that fits tells of
 * all. Of the other kinds a generation has two, and the reader makes the generations. */
static bool may_be_lost(int kind)
{
    return kind == ET_EV_UNDERRUN || kind == ET_EV_SENTENCE;
}

static void post(et_pipe *p, et_ring *queue, et_event *e)
{
    const size_t least = may_be_lost(e->kind) ? EVENT_CAPACITY / 2 : 0;
    e->t_ns = et_now_ns();
    /* Should the reader have made some hundred events without reading, it is waited for. */
    while (et_ring_space(queue) <= least) {
        if (may_be_lost(e->kind) || et_pipe_stopping(p))
            return;
        et_wake(p->loop_fd);
        poll(NULL, 0, 1);
    }
    et_ring_write(queue, e, 1);
    et_wake(p->loop_fd);
}

void et_pipe_post(et_pipe *p, et_ring *queue, uint32_t generation, int kind, int reason, int64_t value)
{
    et_event e = {.generation = generation, .kind = (uint16_t)kind, .reason = (uint16_t)reason, .value = value};
    post(p, queue, &e);
}

void et_pipe_post_mark(et_pipe *p, et_ring *queue, uint32_t generation, int64_t value, const et_mark *mark)
{
    et_event e = {.generation = generation, .kind = ET_EV_SENTENCE, .value = value, .mark = *mark};
    post(p, queue, &e);
}

int et_pipe_next_event(et_pipe *p, et_event *event)
{
    if (et_ring_read(&p->playout_events, event, 1))
        return 1;
    return et_ring_read(&p->decoder_events, event, 1) ? 1 : 0;
}

int et_pipe_trace(et_pipe *p)
{
    if (et_pipe_tracing(p))
        return ET_OK;
    int err = et_ring_init(&p->generator_steps, sizeof(et_step), GENERATOR_STEPS);
    if (!err)
        err = et_ring_init(&p->decoder_steps, sizeof(et_step), DECODER_STEPS);
    if (!err)
        atomic_store(&p->tracing, 1);
    return err;
}

void et_pipe_keep_step(et_pipe *p, et_ring *ring, const et_step *step)
{
    if (!et_ring_write(ring, step, 1))
        atomic_fetch_add_explicit(&p->steps_lost, 1, memory_order_relaxed);
}
