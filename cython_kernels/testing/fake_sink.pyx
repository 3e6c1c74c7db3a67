"""A sink that plays by the clock, keeps what it played, and fails when it was told to."""

from libc.stdint cimport int16_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from cython_kernels.limits cimport ET_MAX_FADE_MS
from cython_kernels.pipe cimport et_sink
from cython_kernels.playout cimport _Sink, within

cdef extern from "testing/et_sink_fake.h" nogil:
    ctypedef struct et_fake_config:
        int rate
        double speed
        size_t buffer
        size_t capture
        int64_t xrun_at
        int64_t fail_at
        int fail_errno
        int fail_times
        int open_errno
        int open_fails
        int open_ms
        int drain_ms
        int close_ms
        int keep_open_ms
        int stall_ms
        int fade_ms
    ctypedef struct et_fake_counts:
        uint64_t heard
        uint64_t opens
        uint64_t closes
        uint64_t starts
        uint64_t drops
        uint64_t pauses
        uint64_t fades
        uint64_t gaps
    ctypedef struct et_fake_fade:
        uint64_t at
        int64_t length
        int64_t heard
        bint rising
    et_sink *et_sink_fake_new(const et_fake_config *config, int *err)
    size_t et_sink_fake_heard(const et_sink *s, size_t start, int16_t *dst, size_t n)
    void et_sink_fake_counts(const et_sink *s, et_fake_counts *counts)
    size_t et_sink_fake_fades(const et_sink *s, et_fake_fade *dst, size_t n)
    size_t et_sink_fake_gaps(const et_sink *s, uint64_t *dst, size_t n)


cdef class FakeSink(_Sink):
    cdef readonly int rate
    cdef size_t kept

    def __init__(self, rate=24000, *, double speed=1.0, buffer=3840, capture=0, int64_t xrun_at=-1,
                 int64_t fail_at=-1, fail_errno=19, fail_times=0, open_errno=0, open_fails=0, open_ms=0, drain_ms=0,
                 close_ms=0, keep_open_ms=-1, stall_ms=0, fade_ms=0):
        if self.sink != NULL:
            raise RuntimeError("FakeSink: initialised twice")
        if not 0.0 <= speed <= 1e6:
            raise ValueError(f"speed: {speed!r} given, 0 (at once) to 1e6 allowed")
        cdef et_fake_config c
        cdef int err = 0
        c.rate = within("rate", rate, 1000, 384000)
        c.speed = speed
        c.buffer = within("buffer", buffer, 1, 1 << 24)
        c.capture = within("capture", capture, 0, 1 << 30)
        c.xrun_at = xrun_at
        c.fail_at = fail_at
        c.fail_errno = within("fail_errno", fail_errno, 1, 4095)
        c.open_errno = within("open_errno", open_errno, 0, 4095)
        c.fail_times = within("fail_times", fail_times, 0, 1 << 30)
        c.open_fails = within("open_fails", open_fails, 0, 1 << 30)
        c.close_ms = within("close_ms", close_ms, 0, 60000)
        c.open_ms = within("open_ms", open_ms, 0, 60000)
        c.drain_ms = within("drain_ms", drain_ms, 0, 60000)
        c.keep_open_ms = within("keep_open_ms", keep_open_ms, -1, 86400000)
        c.stall_ms = within("stall_ms", stall_ms, 0, 86400000)
        c.fade_ms = within("fade_ms", fade_ms, 0, ET_MAX_FADE_MS)
        self.rate = c.rate
        self.kept = c.capture
        self.sink = et_sink_fake_new(&c, &err)
        self._made(err)

    def heard(self):
        cdef et_fake_counts counts
        et_sink_fake_counts(self.sink, &counts)
        cdef size_t n = min(counts.heard, self.kept)
        out = bytearray(2 * n)
        cdef unsigned char[::1] view
        if n:
            view = out
            n = et_sink_fake_heard(self.sink, 0, <int16_t *>&view[0], n)
        return bytes(out)

    def counts(self):
        cdef et_fake_counts c
        et_sink_fake_counts(self.sink, &c)
        return {"heard": c.heard, "opens": c.opens, "closes": c.closes, "starts": c.starts, "drops": c.drops,
                "pauses": c.pauses, "fades": c.fades, "gaps": c.gaps}

    def gaps(self):
        cdef size_t n = et_sink_fake_gaps(self.sink, NULL, 0)
        if n == 0:
            return []
        cdef uint64_t *places = <uint64_t *>malloc(n * sizeof(uint64_t))
        if places == NULL:
            raise MemoryError("gaps")
        try:
            et_sink_fake_gaps(self.sink, places, n)
            return [places[i] for i in range(n)]
        finally:
            free(places)

    def fades(self):
        cdef size_t n = et_sink_fake_fades(self.sink, NULL, 0)
        if n == 0:
            return []
        cdef et_fake_fade *list_of = <et_fake_fade *>malloc(n * sizeof(et_fake_fade))
        if list_of == NULL:
            raise MemoryError("fades")
        try:
            et_sink_fake_fades(self.sink, list_of, n)
            return [(list_of[i].at, list_of[i].length, list_of[i].heard, bool(list_of[i].rising)) for i in range(n)]
        finally:
            free(list_of)
