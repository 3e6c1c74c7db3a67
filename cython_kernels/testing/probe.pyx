"""The kernels' inner functions one by one, and the ends of the pipe, for tests."""

from libc.stdint cimport int16_t, uint32_t
from libc.string cimport memset

import numpy as np

from cython_kernels.frame_loop cimport (et_quiet, et_quiet_begin_utterance, et_quiet_frame, et_quiet_init, et_repeat,
                                        et_repeat_begin, et_repeat_code)
from cython_kernels.limits cimport ET_MAX_SIZES
from cython_kernels.pipe cimport (Pipe, et_block, et_item, et_pipe_consume_end, et_pipe_front, et_pipe_pop_item,
                                  et_pipe_push_end, et_pipe_push_pcm, et_pipe_read)
from cython_kernels.pipe import ERROR_NAMES
from cython_kernels.schedule cimport (et_costs, et_schedule, et_schedule_next, et_standing, et_start_shortage,
                                      read_schedule)
cdef int _costs(et_costs *c, double frame, chunks, bint turns) except -1:
    memset(c, 0, sizeof(et_costs))
    sizes = sorted(chunks)
    if not 1 <= len(sizes) <= ET_MAX_SIZES or sizes[0] != 1:
        raise ValueError(f"chunk sizes are {sizes}: allowed is 1 to {ET_MAX_SIZES} of them, beginning with 1")
    c.frame, c.turns, c.n_sizes = frame, turns, len(sizes)
    for i, size in enumerate(sizes):
        c.sizes[i] = size
        c.chunk[i] = chunks[size]
    return 0


def schedule_next(kind, chunks, int index, *, double frame, cost, bint turns=True, double spread=0.0, double late=0.0,
                  double ahead=0.0, int pending=0, int queued=0):
    cdef et_schedule s
    cdef et_costs c
    cdef et_standing at
    read_schedule(&s, kind, chunks)
    _costs(&c, frame, cost, turns)
    at.index, at.pending, at.queued, at.drop, at.ahead = index, pending, queued, 0, ahead
    c.spread, c.late = spread, late
    return et_schedule_next(&s, &c, &at)


def start_shortage(kind, chunks, int index, *, double frame, cost, int remaining, bint turns=True, double spread=0.0,
                   double late=0.0, double ahead=0.0, int pending=0, int queued=0, int drop=0, bint open=False):
    cdef et_schedule s
    cdef et_costs c
    cdef et_standing at
    read_schedule(&s, kind, chunks)
    _costs(&c, frame, cost, turns)
    at.index, at.pending, at.queued, at.drop, at.ahead = index, pending, queued, drop, ahead
    c.spread, c.late = spread, late
    return et_start_shortage(&s, &c, &at, remaining, open)


def quiet_runaway(frames, int limit, double db):
    cdef et_quiet q
    cdef const float[::1] view
    et_quiet_init(&q, limit, db)
    et_quiet_begin_utterance(&q)
    for index, frame in enumerate(frames):
        view = np.ascontiguousarray(frame, dtype=np.float32)
        if et_quiet_frame(&q, &view[0], view.shape[0]):
            return index
    return None


def repeat_runaway(codes, int limit, int longest):
    cdef et_repeat r
    et_repeat_begin(&r, limit, longest)
    for index, code in enumerate(codes):
        if et_repeat_code(&r, code):
            return index
    return None


cdef class PipeEnds(Pipe):
    def pop_item(self, int timeout_ms=0):
        cdef et_item item
        cdef int got
        with nogil:
            got = et_pipe_pop_item(self.ptr, &item, timeout_ms)
        if got != 1:
            return None
        codes = [item.codes[i] for i in range(self.ptr.config.groups)]
        return item.generation, item.kind, item.reason, item.arg, codes

    def push_pcm(self, uint32_t generation, const float[::1] pcm):
        cdef int err
        cdef size_t n = pcm.shape[0]
        if n == 0:
            return "ok"
        with nogil:
            err = et_pipe_push_pcm(self.ptr, generation, &pcm[0], n)
        return ERROR_NAMES[err]

    def push_silence(self, uint32_t generation, size_t n):
        cdef int err
        with nogil:
            err = et_pipe_push_pcm(self.ptr, generation, NULL, n)
        return ERROR_NAMES[err]

    def push_end(self, uint32_t generation, int reason=1):
        cdef int err
        with nogil:
            err = et_pipe_push_end(self.ptr, generation, reason)
        return ERROR_NAMES[err]

    def front(self):
        cdef et_block b
        if not et_pipe_front(self.ptr, &b):
            return None
        return b.generation, b.kind, b.reason, b.samples

    def read(self, size_t n):
        out = bytearray(2 * n)
        cdef unsigned char[::1] view = out
        cdef size_t got = 0
        if n:
            got = et_pipe_read(self.ptr, <int16_t *>&view[0], n)
        del view
        return bytes(out[:2 * got])

    def consume_end(self):
        et_pipe_consume_end(self.ptr)
