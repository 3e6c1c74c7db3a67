"""The pipe between the engine's threads; see pipe/et_pipe.h for the protocol."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.unistd cimport read as posix_read

import numpy as np
from cython_kernels.limits cimport ET_MAX_GROUPS, ET_MAX_SPF

cdef extern from "pipe/et_pipe_atomics.h" nogil:
    uint32_t et_pipe_generation(const et_pipe *p)
    int et_pipe_is_stopping(const et_pipe *p)
    int et_pipe_is_paused(const et_pipe *p)
    int64_t et_pipe_pending_frames(const et_pipe *p)
    void et_pipe_set_start(et_pipe *p, int64_t samples)
    int64_t et_pipe_get_start(const et_pipe *p)
    void et_pipe_set_plan(et_pipe *p, int64_t min_start, int64_t expected_frames)
    void et_pipe_set_expected(et_pipe *p, int64_t frames)
    void et_pipe_set_gain(et_pipe *p, float gain)
    uint64_t et_pipe_counter(const et_pipe *p, int which)
    int et_pipe_is_tracing(const et_pipe *p)
    uint64_t et_pipe_lost(const et_pipe *p)

cdef extern from "base/et_huge.h" nogil:
    size_t et_use_huge_pages(size_t least)

COUNTERS = ("generator_beat", "decoder_beat", "playout_beat", "frames_generated", "frames_decoded",
            "samples_out", "underruns")
ITEM_FRAME, ITEM_SEG_BEGIN, ITEM_SEG_END = ET_ITEM_FRAME, ET_ITEM_SEG_BEGIN, ET_ITEM_SEG_END
ITEM_PAUSE, ITEM_END = ET_ITEM_PAUSE, ET_ITEM_END
BLOCK_PCM, BLOCK_END = ET_BLOCK_PCM, ET_BLOCK_END
STEP_PREFILL, STEP_FRAME, STEP_DECODE = ET_STEP_PREFILL, ET_STEP_FRAME, ET_STEP_DECODE
STEP_TALKER, STEP_SAMPLE, STEP_WAIT, STEP_SUBSTEPS = ET_STEP_TALKER, ET_STEP_SAMPLE, ET_STEP_WAIT, ET_STEP_SUBSTEPS
STEP_DECODER, STEP_PUSH = ET_STEP_DECODER, ET_STEP_PUSH
STEP_DTYPE = np.dtype([("generation", "u4"), ("kind", "u2"), ("n", "u2"), ("t_ns", "i8"), ("wall_ns", "i8"),
                       ("delay_ns", "i8"), ("part_ns", "i8", (ET_STEP_PARTS,))], align=True)


cdef tuple _by_number(dict names):
    return tuple(names.get(number, "") for number in range(max(names) + 1))


EVENT_NAMES = _by_number({
    ET_EV_FIRST_CHUNK: "first_chunk", ET_EV_STARTED: "started", ET_EV_FINISHED: "finished", ET_EV_DROPPED: "dropped",
    ET_EV_UNDERRUN: "underrun", ET_EV_DEVICE: "device", ET_EV_DECODER: "decoder"})
REASON_NAMES = _by_number({
    ET_COMPLETED: "completed", ET_ABORTED: "aborted", ET_REPLACED: "replaced", ET_RUNAWAY: "runaway",
    ET_LIMIT: "limit", ET_DEVICE: "device", ET_ERROR: "error"})
ERROR_NAMES = {ET_OK: "ok", ET_E_ARG: "argument", ET_E_MEMORY: "memory", ET_E_CONTEXT: "context",
               ET_E_BACKEND: "backend", ET_E_STALE: "stale", ET_E_STOPPED: "stopped", ET_E_RUNAWAY: "runaway"}


def use_huge_pages(size_t least=32 << 20):
    cdef size_t asked
    with nogil:
        asked = et_use_huge_pages(least)
    return asked


cdef class TalkerHandle:
    """Base of every talker: holds the C table."""


cdef class PredictorHandle:
    """Base of every code predictor: holds the C table."""


cdef class DecoderHandle:
    """Base of every codec decoder: holds the C table."""


cdef class SinkHandle:
    """Base of every sink: holds the C table."""


cdef class Pipe:
    def __cinit__(self, int groups, int samples_per_frame, int sample_rate=24000, *,
                  size_t codes_capacity=1024, double pcm_seconds=4.0, double backpressure_seconds=2.0):
        cdef et_pipe_config config
        config.groups = groups
        config.samples_per_frame = samples_per_frame
        config.sample_rate = sample_rate
        config.codes_capacity = codes_capacity
        config.pcm_capacity = <size_t>(pcm_seconds * sample_rate)
        config.backpressure = <int64_t>(backpressure_seconds * sample_rate)
        cdef int err = 0
        self.ptr = et_pipe_create(&config, &err)
        if self.ptr == NULL:
            raise ValueError(f"pipe: {ERROR_NAMES.get(err, err)}: groups={groups}, "
                             f"samples_per_frame={samples_per_frame}, sample_rate={sample_rate}; allowed are "
                             f"1 to {ET_MAX_GROUPS}, 1 to {ET_MAX_SPF}, and 1000 or more")

    def __dealloc__(self):
        et_pipe_destroy(self.ptr)

    @property
    def generation(self):
        return et_pipe_generation(self.ptr)

    @property
    def loop_fd(self):
        return self.ptr.loop_fd

    @property
    def sample_rate(self):
        return self.ptr.config.sample_rate

    @property
    def samples_per_frame(self):
        return self.ptr.config.samples_per_frame

    @property
    def groups(self):
        return self.ptr.config.groups

    @property
    def buffered(self):
        return et_pipe_buffered(self.ptr)

    @property
    def pending_frames(self):
        return et_pipe_pending_frames(self.ptr)

    @property
    def stopping(self):
        return bool(et_pipe_is_stopping(self.ptr))

    @property
    def paused(self):
        return bool(et_pipe_is_paused(self.ptr))

    @property
    def start_samples(self):
        return et_pipe_get_start(self.ptr)

    def next_generation(self):
        return et_pipe_next_generation(self.ptr)

    def stop(self):
        et_pipe_stop(self.ptr)

    def wake_all(self):
        et_pipe_wake_all(self.ptr)

    def set_paused(self, bint paused):
        et_pipe_set_paused(self.ptr, paused)

    def set_start_samples(self, int64_t samples):
        et_pipe_set_start(self.ptr, samples)

    def set_plan(self, int64_t min_start, int64_t expected_frames):
        et_pipe_set_plan(self.ptr, min_start, expected_frames)

    def set_expected(self, int64_t frames):
        et_pipe_set_expected(self.ptr, frames)

    def set_gain(self, float gain):
        et_pipe_set_gain(self.ptr, gain)

    def counters(self):
        return {name: et_pipe_counter(self.ptr, i) for i, name in enumerate(COUNTERS)}

    def events(self):
        cdef et_event e
        cdef uint64_t count
        posix_read(self.ptr.loop_fd, &count, sizeof(count))
        out = []
        while et_pipe_next_event(self.ptr, &e):
            out.append((EVENT_NAMES[e.kind], e.generation, REASON_NAMES[e.reason], e.value, e.t_ns))
        return out

    def take_turns(self):
        self.ptr.turns = 1

    def trace(self):
        if et_pipe_trace(self.ptr):
            raise MemoryError("no memory for the step records")

    @property
    def tracing(self):
        return bool(et_pipe_is_tracing(self.ptr))

    @property
    def steps_lost(self):
        return et_pipe_lost(self.ptr)

    def steps(self):
        cdef unsigned char[::1] view
        cdef et_ring *rings[2]
        cdef size_t n
        parts = []
        rings[0], rings[1] = &self.ptr.generator_steps, &self.ptr.decoder_steps
        assert STEP_DTYPE.itemsize == sizeof(et_step)
        for i in range(2):
            n = et_ring_used(rings[i]) if self.tracing else 0
            array = np.zeros(n, STEP_DTYPE)
            if n:
                view = array.view(np.uint8)
                et_ring_read(rings[i], &view[0], n)
            parts.append(array)
        return np.concatenate(parts)

    def push_item(self, uint32_t generation, int kind, *, codes=None, int arg=0, int reason=0):
        cdef et_item item
        cdef int i
        cdef int err
        memset(&item, 0, sizeof(item))
        item.generation, item.kind, item.arg, item.reason = generation, kind, arg, reason
        if codes is not None:
            if len(codes) != self.ptr.config.groups:
                raise ValueError(f"codes: {len(codes)} given, {self.ptr.config.groups} expected")
            for i in range(self.ptr.config.groups):
                item.codes[i] = codes[i]
        with nogil:
            err = et_pipe_push_item(self.ptr, &item)
        return ERROR_NAMES[err]

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
