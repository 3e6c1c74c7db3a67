/* The pipe between generator, decoder, playout and loop. See et_pipe.h. */
#include "et_pipe.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { GENERATOR_STEPS = 4096, DECODER_STEPS = 2048, EVENT_CAPACITY = 256, BLOCK_CAPACITY = 4096, WAIT_MS = 200 };
/* The longest wait for the decoder to look at a frame. */
enum { OFFER_NS = 2000000 };

int64_t et_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int et_wait(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) <= 0)
        return 0;
    uint64_t count;
    /* Another wake-up may have been taken in between: an empty read is fine. */
    return read(fd, &count, sizeof count) == sizeof count;
}

void et_wake(int fd)
{
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
}

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
    pthread_mutex_init(&p->turn_mutex, NULL);
    /* Its waits are bounded by a clock that nobody sets. */
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->turn_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
        pthread_cond_destroy(&p->turn_cond);
        pthread_mutex_destroy(&p->turn_mutex);
        release(p);
        free(p);
    }
}

void et_pipe_wake_all(et_pipe *p)
{
    et_wake(p->generator_fd);
    et_wake(p->decoder_fd);
    et_wake(p->playout_fd);
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

static bool stopping(const et_pipe *p)
{
    return atomic_load_explicit(&p->stop, memory_order_acquire) != 0;
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
        if (stopping(p))
            return ET_E_STOPPED;
        if (!et_pipe_live(p, item->generation))
            return ET_E_STALE;
        if (frame && et_pipe_ran_away(p, item->generation))
            return ET_E_RUNAWAY;
        /* What is held back is not drained: the decision about it needs more frames. */
        bool held = atomic_load_explicit(&p->held_back, memory_order_acquire) == item->generation &&
                    et_pipe_may_have(p, item->generation) < INT64_MAX;
        bool full = frame && !held && backlog(p) >= atomic_load_explicit(&p->limit, memory_order_acquire);
        if (et_ring_space(&p->items) > 0 && !full)
            break;
        atomic_fetch_add_explicit(&p->generator_beat, 1, memory_order_relaxed);
        et_wait(p->generator_fd, WAIT_MS);
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
        if (stopping(p))
            return ET_E_STOPPED;
        while (et_ring_read(&p->items, item, 1)) {
            if (item->kind == ET_ITEM_FRAME)
                atomic_fetch_sub_explicit(&p->pending_frames, 1, memory_order_acq_rel);
            et_wake(p->generator_fd);
            if (et_pipe_live(p, item->generation))
                return 1;
        }
        if (!et_wait(p->decoder_fd, timeout_ms))
            return 0;
    }
}

/* Wait until a block entry and at least one sample fit. */
static int wait_space(et_pipe *p, uint32_t generation, bool samples)
{
    for (;;) {
        if (stopping(p))
            return ET_E_STOPPED;
        if (!et_pipe_live(p, generation))
            return ET_E_STALE;
        if (et_ring_space(&p->blocks) > 0 && (!samples || et_ring_space(&p->pcm) > 0))
            return ET_OK;
        atomic_fetch_add_explicit(&p->decoder_beat, 1, memory_order_relaxed);
        et_wait(p->decoder_fd, WAIT_MS);
    }
}

static int push_block(et_pipe *p, uint32_t generation, int kind, int reason, size_t samples)
{
    et_block b = {.generation = generation, .kind = (uint16_t)kind, .reason = (uint16_t)reason,
                  .samples = (uint32_t)samples};
    et_ring_write(&p->blocks, &b, 1);
    et_wake(p->playout_fd);
    return ET_OK;
}

static int16_t to_s16(float x)
{
    float v = rintf(x * 32768.0f);
    if (!(v > -32768.0f)) /* NaN too */
        return isnan(v) ? 0 : -32768;
    return v > 32767.0f ? 32767 : (int16_t)v;
}

int et_pipe_push_pcm(et_pipe *p, uint32_t generation, const float *pcm, size_t n)
{
    int16_t part[1024];
    float gain = atomic_load_explicit(&p->gain, memory_order_relaxed);
    while (n > 0) {
        int err = wait_space(p, generation, true);
        if (err)
            return err;
        size_t m = et_ring_space(&p->pcm);
        if (m > n)
            m = n;
        /* Samples first, then the block that announces them: the consumer reads only what a block covers. */
        for (size_t done = 0; done < m;) {
            size_t k = m - done < 1024 ? m - done : 1024;
            for (size_t i = 0; i < k; i++)
                part[i] = pcm ? to_s16(pcm[done + i] * gain) : 0;
            et_ring_write(&p->pcm, part, k);
            done += k;
        }
        push_block(p, generation, ET_BLOCK_PCM, 0, m);
        if (pcm)
            pcm += m;
        n -= m;
    }
    return ET_OK;
}

int et_pipe_push_end(et_pipe *p, uint32_t generation, uint16_t reason)
{
    int err = wait_space(p, generation, false);
    return err ? err : push_block(p, generation, ET_BLOCK_END, reason, 0);
}

void et_pipe_run_away(et_pipe *p, uint32_t generation, uint32_t keep)
{
    atomic_store_explicit(&p->cut, (uint64_t)generation << 32 | keep, memory_order_release);
    et_pipe_wake_all(p);
}

bool et_pipe_ran_away(const et_pipe *p, uint32_t generation)
{
    return atomic_load_explicit(&p->cut, memory_order_acquire) >> 32 == generation;
}

int64_t et_pipe_keep(const et_pipe *p, uint32_t generation)
{
    uint64_t cut = atomic_load_explicit(&p->cut, memory_order_acquire);
    return cut >> 32 == generation ? (int64_t)(cut & UINT32_MAX) : INT64_MAX;
}

void et_pipe_hold(et_pipe *p, uint32_t generation, int64_t samples)
{
    uint64_t hold = (uint64_t)generation << 32 | (samples < UINT32_MAX ? (uint64_t)samples : UINT32_MAX);
    if (atomic_exchange_explicit(&p->hold, hold, memory_order_acq_rel) != hold)
        et_wake(p->playout_fd);
}

int64_t et_pipe_may_have(const et_pipe *p, uint32_t generation)
{
    uint64_t hold = atomic_load_explicit(&p->hold, memory_order_acquire);
    return hold >> 32 == generation && (hold & UINT32_MAX) < UINT32_MAX ? (int64_t)(hold & UINT32_MAX) : INT64_MAX;
}

void et_pipe_hold_back(et_pipe *p, uint32_t generation)
{
    if (atomic_exchange_explicit(&p->held_back, generation, memory_order_acq_rel) != generation)
        et_wake(p->generator_fd);
}

/* The front block is changed in place as it is read: only the consumer touches entries before head. */
static et_block *front_entry(et_pipe *p)
{
    uint64_t tail = atomic_load_explicit(&p->blocks.tail, memory_order_relaxed);
    if (atomic_load_explicit(&p->blocks.head, memory_order_acquire) == tail)
        return NULL;
    return (et_block *)(p->blocks.data + (size_t)(tail & (p->blocks.capacity - 1)) * sizeof(et_block));
}

int et_pipe_front(et_pipe *p, et_block *block)
{
    et_block *b;
    while ((b = front_entry(p)) != NULL) {
        if (et_pipe_live(p, b->generation)) {
            *block = *b;
            return 1;
        }
        et_ring_skip(&p->pcm, b->samples);
        et_ring_skip(&p->blocks, 1);
        et_wake(p->decoder_fd);
        et_wake(p->generator_fd);
    }
    return 0;
}

size_t et_pipe_read(et_pipe *p, int16_t *dst, size_t n)
{
    et_block *b = front_entry(p);
    if (!b || b->kind != ET_BLOCK_PCM)
        return 0;
    if (n > b->samples)
        n = b->samples;
    n = et_ring_read(&p->pcm, dst, n);
    b->samples -= (uint32_t)n;
    if (b->samples == 0)
        et_ring_skip(&p->blocks, 1);
    et_wake(p->decoder_fd);
    et_wake(p->generator_fd);
    return n;
}

void et_pipe_consume_end(et_pipe *p)
{
    et_block *b = front_entry(p);
    if (b && b->kind == ET_BLOCK_END)
        et_ring_skip(&p->blocks, 1);
    et_wake(p->decoder_fd);
}

int et_pipe_last(const et_pipe *p, et_block *block)
{
    uint64_t tail = atomic_load_explicit(&p->blocks.tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&p->blocks.head, memory_order_acquire);
    if (head == tail)
        return 0;
    memcpy(block, p->blocks.data + (size_t)((head - 1) & (p->blocks.capacity - 1)) * sizeof *block, sizeof *block);
    return 1;
}

size_t et_pipe_buffered(const et_pipe *p)
{
    return et_ring_used(&p->pcm);
}

/* Underruns have no bound of their own: they may fill half of the queue; the next one that fits tells of all. Of the
 * other kinds a generation has two, and the reader makes the generations. */
static bool may_post(const et_ring *queue, int kind)
{
    return et_ring_space(queue) > (kind == ET_EV_UNDERRUN ? EVENT_CAPACITY / 2 : 0);
}

void et_pipe_post(et_pipe *p, et_ring *queue, uint32_t generation, int kind, int reason, int64_t value)
{
    et_event e = {.generation = generation, .kind = (uint16_t)kind, .reason = (uint16_t)reason,
                  .value = value, .t_ns = et_now_ns()};
    /* Should the reader have made some hundred events without reading, it is waited for. */
    while (!may_post(queue, kind)) {
        if (kind == ET_EV_UNDERRUN || stopping(p))
            return;
        et_wake(p->loop_fd);
        poll(NULL, 0, 1);
    }
    et_ring_write(queue, &e, 1);
    et_wake(p->loop_fd);
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

void et_turn_ask(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->looked = false;
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_offer(et_pipe *p)
{
    if (!p->turns || atomic_load_explicit(&p->pending_frames, memory_order_relaxed) <
                         atomic_load_explicit(&p->wanted, memory_order_relaxed))
        return;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += OFFER_NS;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&p->turn_mutex);
    while (!p->decoding && !p->looked)
        if (pthread_cond_timedwait(&p->turn_cond, &p->turn_mutex, &end))
            break;
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_looked(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->looked = true;
    pthread_cond_broadcast(&p->turn_cond);
    pthread_mutex_unlock(&p->turn_mutex);
}

void et_turn_take(et_pipe *p)
{
    if (!p->turns)
        return;
    pthread_mutex_lock(&p->turn_mutex);
    p->decoding = true;
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
