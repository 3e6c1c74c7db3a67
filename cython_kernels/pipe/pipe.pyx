"""The pipe between the engine's threads; see pipe/et_pipe.h for the protocol."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.unistd cimport read as posix_read

import numpy as np
from cython_kernels.limits cimport ET_MAX_GROUPS, ET_MAX_SPF

COUNTERS = ("generator_beat", "decoder_beat", "playout_beat", "frames_generated", "frames_decoded",
            "samples_out", "underruns")
ITEM_FRAME, ITEM_SEG_BEGIN, ITEM_SEG_END = ET_ITEM_FRAME, ET_ITEM_SEG_BEGIN, ET_ITEM_SEG_END
ITEM_WAIT = ET_ITEM_WAIT
ITEM_PAUSE, ITEM_END, ITEM_RENDER = ET_ITEM_PAUSE, ET_ITEM_END, ET_ITEM_RENDER
BLOCK_PCM, BLOCK_END, BLOCK_MARK = ET_BLOCK_PCM, ET_BLOCK_END, ET_BLOCK_MARK
Mark = tuple[int, float, int, int]
BEGINNING = (0, 0.0, 0, 0)
STEP_PREFILL, STEP_FRAME, STEP_DECODE = ET_STEP_PREFILL, ET_STEP_FRAME, ET_STEP_DECODE
STEP_TALKER, STEP_SAMPLE, STEP_WAIT, STEP_SUBSTEPS = ET_STEP_TALKER, ET_STEP_SAMPLE, ET_STEP_WAIT, ET_STEP_SUBSTEPS
STEP_DECODER, STEP_PUSH = ET_STEP_DECODER, ET_STEP_PUSH
STEP_DTYPE = np.dtype([("generation", "u4"), ("kind", "u2"), ("n", "u2"), ("t_ns", "i8"), ("wall_ns", "i8"),
                       ("delay_ns", "i8"), ("part_ns", "i8", (ET_STEP_PARTS,))], align=True)


cdef tuple _by_number(dict names):
    return tuple(names.get(number, "") for number in range(max(names) + 1))


EVENT_NAMES = _by_number({
    ET_EV_FIRST_CHUNK: "first_chunk", ET_EV_STARTED: "started", ET_EV_FINISHED: "finished", ET_EV_DROPPED: "dropped",
    ET_EV_UNDERRUN: "underrun", ET_EV_DEVICE: "device", ET_EV_DECODER: "decoder",
    ET_EV_SENTENCE: "sentence"})
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

    def next_generation(self):
        return et_pipe_next_generation(self.ptr)

    def stop(self):
        et_pipe_stop(self.ptr)

    def wake_all(self):
        et_pipe_wake_all(self.ptr)

    def set_paused(self, bint paused):
        et_pipe_set_paused(self.ptr, paused)

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
            value = e.value
            if e.kind == ET_EV_SENTENCE:
                value = e.value, (e.mark.sentence, e.mark.loudest, e.mark.trailing, e.mark.reserve)
            out.append((EVENT_NAMES[e.kind], e.generation, REASON_NAMES[e.reason], value, e.t_ns))
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

    def push_render(self, uint32_t generation, mark=BEGINNING):
        cdef et_item item
        cdef int err
        memset(&item, 0, sizeof(item))
        item.generation, item.kind = generation, ITEM_RENDER
        item.mark.sentence, item.mark.loudest, item.mark.trailing, item.mark.reserve = mark
        with nogil:
            err = et_pipe_push_item(self.ptr, &item)
        return ERROR_NAMES[err]
