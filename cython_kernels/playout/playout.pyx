"""Playout and its sinks; see playout/et_playout.h and playout/et_sink.h."""

import os

from libc.errno cimport EINVAL
from libc.stdint cimport int16_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from cython_kernels.pipe cimport Pipe, SinkHandle, et_pipe, et_sink
from cython_kernels.limits cimport ET_MAX_BUFFER_MS, ET_MAX_FADE_MS, ET_MAX_PERIOD_MS, ET_MAX_ROLL_MS

MAX_FADE_MS = ET_MAX_FADE_MS


cdef int within(str name, value, int low, int high) except? -1:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name}: {value!r} given, {low} to {high} allowed")
    return value


cdef class _Sink(SinkHandle):
    def __dealloc__(self):
        if self.sink != NULL:
            et_sink_destroy(self.sink)
            self.sink = NULL

    cdef object _made(self, int err):
        if self.sink == NULL:
            if err == -EINVAL:
                raise ValueError(f"{type(self).__name__}: parameters out of range")
            raise MemoryError(f"{type(self).__name__}: {os.strerror(-err)}")

    cdef object _idle(self):
        if et_sink_in_use(self.sink):
            raise RuntimeError(f"{type(self).__name__}: playout is using it")

    @property
    def in_use(self):
        return et_sink_in_use(self.sink)

    @property
    def failed_step(self):
        return et_sink_failed_step(self.sink).decode()

    def counters(self):
        return {"opens": et_sink_opens(self.sink), "xruns": et_sink_xruns(self.sink),
                "suspends": et_sink_suspends(self.sink)}

    def close(self):
        self._idle()
        with nogil:
            et_sink_close(self.sink)


cdef class AlsaSink(_Sink):
    cdef readonly str device

    def __init__(self, device="default", rate=24000, *, device_rate=0, channels=0, format="",
                 period_ms=20, buffer_ms=160, keep_open_ms=1000, stall_ms=3000, fade_ms=5, drain=None):
        if self.sink != NULL:
            raise RuntimeError("AlsaSink: initialised twice")
        cdef bytes device_b = device.encode()
        cdef bytes format_b = format.encode()
        cdef et_alsa_config c
        cdef int err = 0
        c.device = device_b
        c.rate = within("rate", rate, 4000, 384000)
        c.device_rate = within("device_rate", device_rate, 0, 384000)
        c.channels = within("channels", channels, 0, 32)
        c.format = format_b
        c.period_ms = within("period_ms", period_ms, 1, ET_MAX_PERIOD_MS)
        c.buffer_ms = within("buffer_ms", buffer_ms, 2 * c.period_ms, ET_MAX_BUFFER_MS)
        c.keep_open_ms = within("keep_open_ms", keep_open_ms, -1, 86400000)
        c.stall_ms = within("stall_ms", stall_ms, 0, 86400000)
        c.fade_ms = within("fade_ms", fade_ms, 0, MAX_FADE_MS)
        c.drain = -1 if drain is None else bool(drain)
        self.device = device
        self.sink = et_sink_alsa_new(&c, &err)
        self._made(err)

    def info(self):
        cdef et_alsa_info i
        et_sink_alsa_info(self.sink, &i)
        return {"rate": i.rate, "channels": i.channels, "format": i.format.decode(),
                "period_frames": i.period_frames, "buffer_frames": i.buffer_frames,
                "can_pause": bool(i.can_pause), "converts_rate": bool(i.converts_rate)}

    def probe(self):
        cdef int err
        self._idle()
        with nogil:
            err = et_sink_open(self.sink)
        if err < 0:
            raise OSError(-err, f"{self.device}: {self.failed_step}: {os.strerror(-err)}")
        with nogil:
            et_sink_close(self.sink)
        return self.info()


cdef class FdSink(_Sink):
    def __init__(self, int fd, format="s16le", rate=24000, *, bint close_fd=True, bint keep=False, stall_ms=0):
        if self.sink != NULL:
            raise RuntimeError("FdSink: initialised twice")
        if format not in ("s16le", "wav"):
            raise ValueError(f"format: {format!r} given, 's16le' or 'wav' allowed")
        cdef et_fd_config c
        cdef int err = 0
        c.fd = within("fd", fd, 0, 2147483647)
        c.rate = within("rate", rate, 1000, 384000)
        c.wav = format == "wav"
        c.close_fd = close_fd
        c.keep = keep
        c.stall_ms = within("stall_ms", stall_ms, 0, 86400000)
        self.sink = et_sink_fd_new(&c, &err)
        self._made(err)

    def close(self):
        self._idle()
        with nogil:
            et_sink_fd_end(self.sink)


cdef class ClockSink(_Sink):
    def __init__(self, rate=24000, *, double speed=1.0, buffer=3840):
        if self.sink != NULL:
            raise RuntimeError("ClockSink: initialised twice")
        if not 0.0 <= speed <= 1e6:
            raise ValueError(f"speed: {speed!r} given, 0 (at once) to 1e6 allowed")
        cdef int err = 0
        self.sink = et_sink_clock_new(within("rate", rate, 1000, 384000), speed,
                                      within("buffer", buffer, 1, 1 << 24), &err)
        self._made(err)


cdef class Playout:
    cdef et_playout *ptr
    cdef readonly Pipe pipe
    cdef list sinks
    cdef bint active

    def __cinit__(self, Pipe pipe not None, *, preroll_ms=0, postroll_ms=0):
        self.pipe = pipe
        self.sinks = []
        self.ptr = et_playout_new(within("preroll_ms", preroll_ms, 0, ET_MAX_ROLL_MS),
                                  within("postroll_ms", postroll_ms, 0, ET_MAX_ROLL_MS))
        if self.ptr == NULL:
            raise MemoryError("Playout")

    def __dealloc__(self):
        et_playout_free(self.ptr)

    def set_sink(self, SinkHandle sink):
        if sink is not None and sink.sink == NULL:
            raise ValueError("sink: not initialised")
        if sink is not None and sink not in self.sinks:
            self.sinks.append(sink)
        et_playout_set_sink(self.pipe.ptr, self.ptr, NULL if sink is None else sink.sink)
        # Handles that the thread can no longer reach are let go.
        self.sinks = [s for s in self.sinks if self.uses(s)]

    def uses(self, SinkHandle sink not None):
        return bool(et_playout_uses(self.ptr, sink.sink))

    def run(self):
        if self.active:
            raise RuntimeError("Playout: it runs already")
        self.active = True
        cdef et_pipe *pipe = self.pipe.ptr
        try:
            with nogil:
                et_playout_loop(pipe, self.ptr)
        finally:
            self.active = False
