/* One-producer one-consumer ring: head and tail only grow; the producer publishes with a release store. */
#include "et_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/et_types.h"

static size_t round_up_pow2(size_t n)
{
    size_t p = 1;
    while (p < n)
        p <<= 1;
    return p;
}

int et_ring_init(et_ring *r, size_t entry, size_t capacity)
{
    memset(r, 0, sizeof *r);
    if (entry == 0 || capacity == 0 || capacity > ((size_t)1 << 30) / entry)
        return ET_E_ARG;
    r->entry = entry;
    r->capacity = round_up_pow2(capacity);
    r->data = malloc(entry * r->capacity);
    if (!r->data)
        return ET_E_MEMORY;
    /* Touch the pages now: the audio path must not fault them in later. */
    memset(r->data, 0, entry * r->capacity);
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    return ET_OK;
}

void et_ring_free(et_ring *r)
{
    free(r->data);
    r->data = NULL;
}

size_t et_ring_used(const et_ring *r)
{
    /* tail first: it may only have grown by the time head is read, never past it. */
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    uint64_t used = head - tail;
    return used > r->capacity ? r->capacity : (size_t)used;
}

size_t et_ring_space(const et_ring *r)
{
    return r->capacity - et_ring_used(r);
}

static void copy_in(et_ring *r, uint64_t at, const unsigned char *src, size_t n)
{
    size_t pos = (size_t)(at & (r->capacity - 1));
    size_t first = r->capacity - pos < n ? r->capacity - pos : n;
    memcpy(r->data + pos * r->entry, src, first * r->entry);
    memcpy(r->data, src + first * r->entry, (n - first) * r->entry);
}

static void copy_out(const et_ring *r, uint64_t at, unsigned char *dst, size_t n)
{
    size_t pos = (size_t)(at & (r->capacity - 1));
    size_t first = r->capacity - pos < n ? r->capacity - pos : n;
    memcpy(dst, r->data + pos * r->entry, first * r->entry);
    memcpy(dst + first * r->entry, r->data, (n - first) * r->entry);
}

size_t et_ring_write(et_ring *r, const void *src, size_t n)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    size_t space = r->capacity - (size_t)(head - tail);
    if (n > space)
        n = space;
    if (n == 0)
        return 0;
    copy_in(r, head, src, n);
    atomic_store_explicit(&r->head, head + n, memory_order_release);
    return n;
}

size_t et_ring_peek(const et_ring *r, void *dst, size_t n)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    size_t used = (size_t)(head - tail);
    if (n > used)
        n = used;
    if (n)
        copy_out(r, tail, dst, n);
    return n;
}

size_t et_ring_skip(et_ring *r, size_t n)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    size_t used = (size_t)(head - tail);
    if (n > used)
        n = used;
    atomic_store_explicit(&r->tail, tail + n, memory_order_release);
    return n;
}

size_t et_ring_read(et_ring *r, void *dst, size_t n)
{
    n = et_ring_peek(r, dst, n);
    return et_ring_skip(r, n);
}
