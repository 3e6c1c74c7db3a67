/* Between decoder and playout: samples, the blocks that announce them, and how many are played. See et_pipe_blocks.h. */
#include "et_pipe_blocks.h"

#include <string.h>

#include "pipe/et_volume.h"

/* Wait until a block entry and at least one sample fit. */
static int wait_space(et_pipe *p, uint32_t generation, bool samples)
{
    for (;;) {
        if (et_pipe_stopping(p))
            return ET_E_STOPPED;
        if (!et_pipe_live(p, generation))
            return ET_E_STALE;
        if (et_ring_space(&p->blocks) > 0 && (!samples || et_ring_space(&p->pcm) > 0))
            return ET_OK;
        atomic_fetch_add_explicit(&p->decoder_beat, 1, memory_order_relaxed);
        et_wait(p->decoder_fd, ET_WAIT_MS);
    }
}

static int push_block(et_pipe *p, uint32_t generation, int kind, int reason, size_t samples, const et_mark *mark)
{
    et_block b = {.generation = generation, .kind = (uint16_t)kind, .reason = (uint16_t)reason,
                  .samples = (uint32_t)samples};
    if (mark)
        b.mark = *mark;
    et_ring_write(&p->blocks, &b, 1);
    et_wake(p->playout_fd);
    return ET_OK;
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
                part[i] = pcm ? et_volume_apply(pcm[done + i], gain) : 0;
            et_ring_write(&p->pcm, part, k);
            done += k;
        }
        push_block(p, generation, ET_BLOCK_PCM, 0, m, NULL);
        if (pcm)
            pcm += m;
        n -= m;
    }
    return ET_OK;
}

int et_pipe_push_end(et_pipe *p, uint32_t generation, uint16_t reason)
{
    int err = wait_space(p, generation, false);
    return err ? err : push_block(p, generation, ET_BLOCK_END, reason, 0, NULL);
}

int et_pipe_push_mark(et_pipe *p, uint32_t generation, const et_mark *mark)
{
    int err = wait_space(p, generation, false);
    return err ? err : push_block(p, generation, ET_BLOCK_MARK, 0, 0, mark);
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
    if (b && b->kind != ET_BLOCK_PCM)
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
