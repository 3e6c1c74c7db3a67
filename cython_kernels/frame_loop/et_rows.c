/* See et_rows.h. */
#include "et_rows.h"

#include <stdlib.h>
#include <string.h>

#include "et_frames.h"

struct et_rows {
    et_ring ring;
    et_pipe *pipe;
    int hidden;
    _Atomic int closed;
};

et_rows *et_rows_create(et_pipe *pipe, int hidden, size_t capacity, int *err)
{
    /* The ring's counters are cache-line aligned, which calloc does not promise. */
    const size_t size = (sizeof(et_rows) + 63) / 64 * 64;
    et_rows *r = aligned_alloc(64, size);
    *err = ET_E_MEMORY;
    if (!r)
        return NULL;
    memset(r, 0, size);
    r->pipe = pipe;
    r->hidden = hidden;
    *err = hidden < 1 ? ET_E_ARG : et_ring_init(&r->ring, (size_t)hidden * sizeof(float), capacity ? capacity : 1);
    if (*err) {
        free(r);
        return NULL;
    }
    return r;
}

void et_rows_destroy(et_rows *r)
{
    if (r) {
        et_ring_free(&r->ring);
        free(r);
    }
}

size_t et_rows_write(et_rows *r, const float *rows, size_t n)
{
    if (atomic_load_explicit(&r->closed, memory_order_relaxed))
        return 0;
    const size_t written = et_ring_write(&r->ring, rows, n);
    et_wake(r->pipe->generator_fd);
    return written;
}

void et_rows_close(et_rows *r)
{
    atomic_store_explicit(&r->closed, 1, memory_order_release);
    et_wake(r->pipe->generator_fd);
}

int et_rows_next(et_rows *r, uint32_t generation, float *row)
{
    bool told = false;
    for (;;) {
        /* Read before the ring is looked at: what was written before the end is then seen. */
        const int closed = atomic_load_explicit(&r->closed, memory_order_acquire);
        if (et_ring_read(&r->ring, row, 1))
            return 1;
        if (closed)
            return 0;
        const et_item wait = {.generation = generation, .kind = ET_ITEM_WAIT};
        int err = told ? ET_OK : et_pipe_push_item(r->pipe, &wait);
        told = true;
        if (err || (err = et_frames_doze(r->pipe, generation)))
            return err;
    }
}

int et_rows_hidden(const et_rows *r)
{
    return r->hidden;
}
