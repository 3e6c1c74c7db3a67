"""Frames that were made elsewhere, into the pipe; see et_frames.h."""

from libc.stdint cimport int16_t, int64_t, uint32_t
from cython_kernels.limits cimport ET_MAX_PERIOD, ET_MAX_VOCAB
from cython_kernels.pipe cimport ET_COMPLETED, ET_ERROR, Pipe
from cython_kernels.pipe import ERROR_NAMES, REASON_NAMES


def doze(Pipe pipe, uint32_t generation):
    cdef int err
    with nogil:
        err = et_frames_doze(pipe.ptr, generation)
    return err == 0


cdef class FrameGate:
    cdef et_frames f
    cdef Pipe pipe
    cdef uint32_t generation
    cdef int entries, reason, error
    cdef int64_t begin_ns, last_ns, network_ns

    def __cinit__(self, Pipe pipe, *, int entries):
        if not 1 <= entries <= ET_MAX_VOCAB:
            raise ValueError(f"entries is {entries}: allowed is 1 to {ET_MAX_VOCAB} codes of a codebook")
        self.pipe, self.entries, self.reason = pipe, entries, ET_COMPLETED

    @property
    def open(self):
        return self.reason == 0

    def begin(self, uint32_t generation, *, int max_frames, int drop_frames=0, int repeat_frames=0,
              int repeat_period=0):
        cdef et_bounds bounds
        cdef int err
        if max_frames < 1 or drop_frames < 0 or repeat_frames < 0 or not 0 <= repeat_period <= ET_MAX_PERIOD:
            raise ValueError(f"max_frames is {max_frames}, drop_frames {drop_frames}, repeat_frames {repeat_frames} "
                             f"and repeat_period {repeat_period}: allowed is 1 or more, 0 or more, 0 or more, "
                             f"and 0 to {ET_MAX_PERIOD}")
        bounds = et_bounds(generation, max_frames, drop_frames, 0, repeat_frames, repeat_period)
        self.generation, self.reason, self.error = generation, 0, 0
        self.last_ns, self.network_ns, self.begin_ns = 0, 0, et_now_ns()
        with nogil:
            err = et_frames_begin(&self.f, self.pipe.ptr, &bounds)
        return self._go_on(err)

    cdef bint _go_on(self, int err):
        if err:
            self.reason, self.error = et_frames_reason(err), err
        return err == 0

    def wait(self, int fd, double seconds):
        cdef int got
        cdef int ms = <int>(1000 * min(max(seconds, 0.0), 1e6))
        if self.reason:
            return False
        cdef int64_t t0 = et_now_ns()
        with nogil:
            got = et_frames_wait(self.pipe.ptr, self.generation, fd, ms)
        self.network_ns += et_now_ns() - t0
        if got < 0:
            self._go_on(got)
        return got == 1

    def push(self, const int16_t[:, ::1] codes):
        cdef int n = codes.shape[0], groups = self.pipe.groups, i, k, err
        cdef int64_t cost
        if codes.shape[1] != groups:
            raise ValueError(f"a frame has {codes.shape[1]} codes: {groups} expected")
        for i in range(n):
            for k in range(groups):
                if not 0 <= codes[i, k] < self.entries:
                    raise ValueError(f"frame {self.f.frames + i}, codebook {k}: code {codes[i, k]}; "
                                     f"allowed is 0 to {self.entries - 1}")
        # Frames that came together share the time since the last ones; before the first ones it was not theirs alone.
        cost = (et_now_ns() - self.last_ns) // n if self.last_ns and n else 0
        for i in range(n):
            if self.reason:
                return False
            self.reason = et_frames_admit(&self.f, codes[i, 0])
            if self.reason:
                return False
            for k in range(groups):
                self.f.item.codes[k] = codes[i, k]
            with nogil:
                err = et_frames_push(&self.f, cost)
            if not self._go_on(err):
                return False
        self.last_ns = et_now_ns()
        return self.reason == 0

    def finish(self, reason="completed"):
        cdef int err
        if not self.reason:
            self.reason = REASON_NAMES.index(reason)
        if not self.error and self.reason != ET_ERROR:
            with nogil:
                err = et_frames_end(&self.f)
            self._go_on(err)
        return {
            "frames": self.f.frames, "reason": REASON_NAMES[self.reason], "error": ERROR_NAMES[self.error],
            "begin_ns": self.begin_ns, "wall_ns": et_now_ns() - self.begin_ns, "prefill_ns": 0, "talker_ns": 0,
            "predictor_ns": 0, "sample_ns": 0, "wait_ns": self.f.wait_ns, "turn_ns": 0,
            "network_ns": self.network_ns, "first_frame_ns": self.f.first_ns, "substeps": 0, "steps": 0,
        }
