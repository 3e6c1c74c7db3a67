"""Playout and its sinks; see playout/et_playout.h and playout/et_sink.h."""

import os

from libc.errno cimport EINVAL
from libc.stdint cimport int16_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from cython_kernels.pipe cimport Pipe, SinkHandle, et_pipe, et_sink
from cython_kernels.limits cimport ET_MAX_BUFFER_MS, ET_MAX_FADE_MS, ET_MAX_PERIOD_MS, ET_MAX_ROLL_MS

cdef extern from "playout/et_sink.h" nogil:
    ctypedef struct et_alsa_config:
        const char *device
        int rate
        int device_rate
        int channels
        const char *format
        int period_ms
        int buffer_ms
        int keep_open_ms
        int stall_ms
        int fade_ms
        int drain
    ctypedef struct et_alsa_info:
        int rate
        int channels
        int period_frames
        int buffer_frames
        bint can_pause
        bint converts_rate
        char format[24]
    ctypedef struct et_fd_config:
        int fd
        int rate
        bint wav
        bint close_fd
        bint keep
        int stall_ms
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
    ctypedef struct et_fake_fade:
        uint64_t at
        int64_t length
        int64_t heard
        bint rising
    ctypedef struct et_fake_counts:
        uint64_t heard
        uint64_t opens
        uint64_t closes
        uint64_t starts
        uint64_t drops
        uint64_t pauses
        uint64_t fades
        uint64_t gaps
    et_sink *et_sink_alsa_new(const et_alsa_config *config, int *err)
    void et_sink_alsa_info(const et_sink *s, et_alsa_info *info)
    et_sink *et_sink_fd_new(const et_fd_config *config, int *err)
    void et_sink_fd_end(et_sink *s)
    et_sink *et_sink_fake_new(const et_fake_config *config, int *err)
    size_t et_sink_fake_heard(const et_sink *s, size_t start, int16_t *dst, size_t n)
    void et_sink_fake_counts(const et_sink *s, et_fake_counts *counts)
    size_t et_sink_fake_fades(const et_sink *s, et_fake_fade *dst, size_t n)
    size_t et_sink_fake_gaps(const et_sink *s, uint64_t *dst, size_t n)
    bint et_sink_in_use(const et_sink *s)
    uint64_t et_sink_opens(const et_sink *s)
    uint64_t et_sink_xruns(const et_sink *s)
    uint64_t et_sink_suspends(const et_sink *s)
    const char *et_sink_failed_step(const et_sink *s)
    int et_sink_open(et_sink *s)
    void et_sink_close(et_sink *s)
    void et_sink_destroy(et_sink *s)

cdef extern from "playout/et_playout.h" nogil:
    ctypedef struct et_playout:
        pass
    et_playout *et_playout_new(int preroll_ms, int postroll_ms)
    void et_playout_free(et_playout *o)
    void et_playout_set_sink(et_pipe *p, et_playout *o, et_sink *sink)
    bint et_playout_uses(et_playout *o, const et_sink *sink)
    void et_playout_loop(et_pipe *p, et_playout *o)

cdef extern from "playout/et_resample.h" nogil:
    ctypedef enum et_sample:
        ET_S16
        ET_S32
        ET_S24
        ET_S24_3
        ET_F32
    ctypedef struct et_resample:
        size_t max_in
        size_t max_out
    int et_resample_init(et_resample *r, int in_rate, int out_rate, size_t max_in)
    void et_resample_free(et_resample *r)
    int et_resample_reset(et_resample *r)
    size_t et_resample_feed(et_resample *r, const int16_t *src, size_t n, float *out)
    size_t et_resample_flush(et_resample *r, float *out)
    size_t et_sample_bytes(et_sample format)
    void et_pack(const float *src, size_t n, et_sample format, int channels, unsigned char *dst)

cdef extern from "playout/et_fade.h" nogil:
    void et_fade_frames(unsigned char *frames, size_t count, et_sample format, int channels, int64_t i, int64_t n,
                        bint rising)

cdef extern from "alsa/asoundlib.h" nogil:
    int snd_device_name_hint(int card, const char *iface, void ***hints)
    char *snd_device_name_get_hint(const void *hint, const char *id)
    int snd_device_name_free_hint(void **hints)

MAX_FADE_MS = ET_MAX_FADE_MS
SAMPLE_FORMATS = {"S16": ET_S16, "S32": ET_S32, "S24": ET_S24, "S24_3": ET_S24_3, "F32": ET_F32}


cdef int _within(str name, value, int low, int high) except? -1:
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
        c.rate = _within("rate", rate, 4000, 384000)
        c.device_rate = _within("device_rate", device_rate, 0, 384000)
        c.channels = _within("channels", channels, 0, 32)
        c.format = format_b
        c.period_ms = _within("period_ms", period_ms, 1, ET_MAX_PERIOD_MS)
        c.buffer_ms = _within("buffer_ms", buffer_ms, 2 * c.period_ms, ET_MAX_BUFFER_MS)
        c.keep_open_ms = _within("keep_open_ms", keep_open_ms, -1, 86400000)
        c.stall_ms = _within("stall_ms", stall_ms, 0, 86400000)
        c.fade_ms = _within("fade_ms", fade_ms, 0, MAX_FADE_MS)
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
        c.fd = _within("fd", fd, 0, 2147483647)
        c.rate = _within("rate", rate, 1000, 384000)
        c.wav = format == "wav"
        c.close_fd = close_fd
        c.keep = keep
        c.stall_ms = _within("stall_ms", stall_ms, 0, 86400000)
        self.sink = et_sink_fd_new(&c, &err)
        self._made(err)

    def close(self):
        self._idle()
        with nogil:
            et_sink_fd_end(self.sink)


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
        c.rate = _within("rate", rate, 1000, 384000)
        c.speed = speed
        c.buffer = _within("buffer", buffer, 1, 1 << 24)
        c.capture = _within("capture", capture, 0, 1 << 30)
        c.xrun_at = xrun_at
        c.fail_at = fail_at
        c.fail_errno = _within("fail_errno", fail_errno, 1, 4095)
        c.open_errno = _within("open_errno", open_errno, 0, 4095)
        c.fail_times = _within("fail_times", fail_times, 0, 1 << 30)
        c.open_fails = _within("open_fails", open_fails, 0, 1 << 30)
        c.close_ms = _within("close_ms", close_ms, 0, 60000)
        c.open_ms = _within("open_ms", open_ms, 0, 60000)
        c.drain_ms = _within("drain_ms", drain_ms, 0, 60000)
        c.keep_open_ms = _within("keep_open_ms", keep_open_ms, -1, 86400000)
        c.stall_ms = _within("stall_ms", stall_ms, 0, 86400000)
        c.fade_ms = _within("fade_ms", fade_ms, 0, MAX_FADE_MS)
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


cdef class Playout:
    cdef et_playout *ptr
    cdef readonly Pipe pipe
    cdef list sinks
    cdef bint active

    def __cinit__(self, Pipe pipe not None, *, preroll_ms=0, postroll_ms=0):
        self.pipe = pipe
        self.sinks = []
        self.ptr = et_playout_new(_within("preroll_ms", preroll_ms, 0, ET_MAX_ROLL_MS),
                                  _within("postroll_ms", postroll_ms, 0, ET_MAX_ROLL_MS))
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


def faded(frames, length, *, at=0, rising=False, format="S16", channels=1):
    if format not in SAMPLE_FORMATS:
        raise ValueError(f"format: {format!r} given, one of {', '.join(SAMPLE_FORMATS)} allowed")
    cdef et_sample sample = SAMPLE_FORMATS[format]
    cdef int width = _within("channels", channels, 1, 32)
    cdef int64_t n = _within("length", length, 0, 1 << 24)
    cdef int64_t i = _within("at", at, 0, 1 << 24)
    cdef size_t one = et_sample_bytes(sample) * <size_t>width
    out = bytearray(frames)
    if len(out) % one:
        raise ValueError(f"frames: {len(out)} bytes given, a multiple of {one} allowed")
    cdef unsigned char[::1] view
    if out:
        view = out
        et_fade_frames(&view[0], <size_t>len(out) // one, sample, width, i, n, bool(rising))
    return bytes(out)


cdef class Converter:
    cdef et_resample resample
    cdef float *scratch
    cdef int channels
    cdef et_sample format

    def __cinit__(self, in_rate, out_rate, *, channels=1, format="S16", max_in=480):
        if format not in SAMPLE_FORMATS:
            raise ValueError(f"format: {format!r} given, one of {', '.join(SAMPLE_FORMATS)} allowed")
        self.format = SAMPLE_FORMATS[format]
        self.channels = _within("channels", channels, 1, 32)
        cdef int err = et_resample_init(&self.resample, _within("in_rate", in_rate, 4000, 384000),
                                        _within("out_rate", out_rate, 4000, 384000),
                                        _within("max_in", max_in, 1, 1 << 20))
        if err == 0:
            self.scratch = <float *>malloc(self.resample.max_out * sizeof(float))
        if self.scratch == NULL:
            raise MemoryError("Converter")

    def __dealloc__(self):
        et_resample_free(&self.resample)
        free(self.scratch)

    cdef bytes _packed(self, size_t n):
        out = bytearray(n * self.channels * et_sample_bytes(self.format))
        cdef unsigned char[::1] view
        if n:
            view = out
            et_pack(self.scratch, n, self.format, self.channels, &view[0])
        return bytes(out)

    def feed(self, const int16_t[::1] pcm):
        cdef size_t n = pcm.shape[0], done = 0, k
        out = []
        while done < n:
            k = min(n - done, self.resample.max_in)
            out.append(self._packed(et_resample_feed(&self.resample, &pcm[done], k, self.scratch)))
            done += k
        return b"".join(out)

    def flush(self):
        cdef size_t n
        out = []
        while True:
            n = et_resample_flush(&self.resample, self.scratch)
            if n == 0:
                return b"".join(out)
            out.append(self._packed(n))

    def reset(self):
        if et_resample_reset(&self.resample) < 0:
            raise MemoryError("Converter")


def list_devices():
    cdef void **hints
    cdef void **h
    cdef char *text
    cdef int err = snd_device_name_hint(-1, b"pcm", &hints)
    if err < 0:
        raise OSError(-err, f"sound devices: {os.strerror(-err)}")
    found = []
    try:
        h = hints
        while h[0] != NULL:
            fields = {}
            for key in (b"NAME", b"DESC", b"IOID"):
                text = snd_device_name_get_hint(h[0], key)
                if text != NULL:
                    fields[key] = text.decode(errors="replace")
                    free(text)
            if fields.get(b"IOID", "Output") == "Output" and b"NAME" in fields:
                found.append((fields[b"NAME"], fields.get(b"DESC", "").replace("\n", ", ")))
            h += 1
    finally:
        snd_device_name_free_hint(hints)
    return found
