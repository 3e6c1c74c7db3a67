"""Talker, code predictor and decoder without a model: deterministic, paced and able to fail on purpose."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

import numpy as np

from cython_kernels.limits cimport ET_MAX_CHUNK, ET_MAX_GROUPS, ET_MAX_SIZES, ET_MAX_SPF
from cython_kernels.pipe cimport (ET_OK, DecoderHandle, PredictorHandle, TalkerHandle, et_decoder, et_predictor,
                                  et_talker)

cdef int _bounded(str field, value, int lowest, int highest) except? -1000000:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(f"{field} is {value!r}, allowed is an integer from {lowest} to {highest}")
    return value


cdef object _check(int rc, str what):
    if rc != ET_OK:
        raise RuntimeError(f"{what} failed (code {rc})")


cdef object _array(const float *values, int n):
    out = np.empty(n, np.float32)
    cdef float[::1] view = out
    memcpy(&view[0], values, n * sizeof(float))
    return out


cdef dict _counts(et_fake_tally *counts, str units):
    return {"resets": counts.resets, "calls": counts.calls, units: counts.units}


cdef class FakeTalker(TalkerHandle):
    cdef et_fake_talker _t

    def __cinit__(self, hidden, vocab, *, eos_after, eos_id, codes=None, step_us=0, fail_at=-1, max_context=4096,
                  script=(), period=0):
        cdef int i
        _bounded("vocab", vocab, 2, 1 << 20)
        if et_fake_talker_init(&self._t, _bounded("hidden", hidden, 1, 65536), vocab,
                               _bounded("max_context", max_context, 1, 1 << 30)) != ET_OK:
            raise MemoryError("fake talker")
        self._t.eos_after = _bounded("eos_after", eos_after, -1, 1 << 30)
        self._t.eos_id = _bounded("eos_id", eos_id, 1, vocab - 1)
        self._t.codes = _bounded("codes", eos_id if codes is None else codes, 1, eos_id)
        self._t.step_us = _bounded("step_us", step_us, 0, 60000000)
        self._t.fail_at = _bounded("fail_at", fail_at, -1, 1 << 30)
        values = list(script)
        if values:
            self._t.script = <int16_t *>malloc(len(values) * sizeof(int16_t))
            if self._t.script == NULL:
                raise MemoryError("fake talker")
            for i in range(len(values)):
                self._t.script[i] = _bounded("script", values[i], 0, min(vocab - 1, 32767))
        self._t.n_script = len(values)
        self._t.period = _bounded("period", period, 0, len(values))
        self.talker = &self._t.base

    def __dealloc__(self):
        et_fake_talker_free(&self._t)

    @property
    def hidden_size(self):
        return self._t.base.hidden

    @property
    def vocab(self):
        return self._t.base.vocab

    @property
    def max_context(self):
        return self._t.base.max_context

    @property
    def step_us(self):
        return self._t.step_us

    @step_us.setter
    def step_us(self, value):
        self._t.step_us = _bounded("step_us", value, 0, 60000000)

    @property
    def counts(self):
        return _counts(&self._t.counts, "positions")

    def feed(self, rows):
        cdef const float[:, ::1] view = np.ascontiguousarray(rows, dtype=np.float32)
        if view.shape[0] < 1 or view.shape[1] != self._t.base.hidden:
            raise ValueError(f"rows has shape {np.shape(rows)}, allowed is [n, {self._t.base.hidden}] with n >= 1")
        cdef int n = view.shape[0], rc
        with nogil:
            rc = self._t.base.feed(&self._t.base, &view[0, 0], n)
        _check(rc, "talker step")

    def reset(self):
        self._t.base.reset(&self._t.base)

    def hidden(self):
        return _array(self._t.base.hidden_out(&self._t.base), self._t.base.hidden)

    def logits(self):
        return _array(self._t.base.logits(&self._t.base), self._t.base.vocab)


cdef class FakePredictor(PredictorHandle):
    cdef et_fake_predictor _p

    def __cinit__(self, groups, vocab, *, input_hidden, substep_us=0, fail_at=-1, decides=False, stop_after=-1):
        steps = _bounded("groups", groups, 1 if decides else 2, ET_MAX_GROUPS) + (1 if decides else -1)
        if et_fake_predictor_init(&self._p, _bounded("input_hidden", input_hidden, 1, 65536),
                                  steps, _bounded("vocab", vocab, 2, 32768)) != ET_OK:
            raise MemoryError("fake predictor")
        self._p.substep_us = _bounded("substep_us", substep_us, 0, 60000000)
        self._p.fail_at = _bounded("fail_at", fail_at, -1, 1 << 30)
        self._p.decides = decides
        self._p.stop_after = _bounded("stop_after", stop_after, -1, 1 << 30)
        self.predictor = &self._p.base

    def __dealloc__(self):
        et_fake_predictor_free(&self._p)

    @property
    def groups(self):
        return self._p.base.steps + (-1 if self._p.decides else 1)

    @property
    def vocab(self):
        return self._p.base.vocab

    @property
    def input_hidden(self):
        return self._p.base.input_hidden

    @property
    def counts(self):
        return _counts(&self._p.counts, "frames")

    cdef const float[::1] _row(self, str field, value):
        array = np.ascontiguousarray(value, dtype=np.float32)
        if array.shape != (self._p.base.input_hidden,):
            raise ValueError(f"{field} has shape {array.shape}, allowed is [{self._p.base.input_hidden}]")
        return array

    def begin(self, hidden, row0):
        cdef const float[::1] h = self._row("hidden", hidden)
        cdef const float[::1] r = self._row("row0", row0)
        cdef const float *logits = NULL
        cdef int rc
        with nogil:
            rc = self._p.base.begin(&self._p.base, &h[0], &r[0], &logits)
        _check(rc, "predictor step")
        return _array(logits, self._p.base.vocab)

    def next(self, int group, row):
        cdef const float[::1] r = self._row("row", row)
        cdef const float *logits = NULL
        cdef int rc
        with nogil:
            rc = self._p.base.next(&self._p.base, group, &r[0], &logits)
        _check(rc, "predictor step")
        return _array(logits, self._p.base.vocab)


cdef class FakeDecoder(DecoderHandle):
    cdef et_fake_decoder _d

    def __cinit__(self, groups, samples_per_frame, sizes=(1, 4, 8), *, frame_us=0, fail_at=-1, levels=(),
                  bint by_chunk=False):
        cdef int c_sizes[ET_MAX_SIZES]
        cdef int i
        values = list(sizes)
        if not 1 <= len(values) <= ET_MAX_SIZES or values != sorted(set(values)):
            raise ValueError(f"sizes is {values!r}, allowed are 1 to {ET_MAX_SIZES} ascending chunk sizes")
        for i in range(len(values)):
            c_sizes[i] = _bounded("sizes", values[i], 1, ET_MAX_CHUNK)
        et_fake_decoder_init(&self._d, _bounded("groups", groups, 1, ET_MAX_GROUPS),
                             _bounded("samples_per_frame", samples_per_frame, 1, ET_MAX_SPF), c_sizes, len(values))
        self._d.frame_us = _bounded("frame_us", frame_us, 0, 60000000)
        self._d.fail_at = _bounded("fail_at", fail_at, -1, 1 << 30)
        shifts = list(levels)
        if shifts:
            self._d.levels = <uint8_t *>malloc(len(shifts))
            if self._d.levels == NULL:
                raise MemoryError("fake decoder")
            for i in range(len(shifts)):
                self._d.levels[i] = _bounded("levels", shifts[i], 0, 100)
        self._d.n_levels = len(shifts)
        self._d.by_chunk = by_chunk
        self.decoder = &self._d.base

    def __dealloc__(self):
        et_fake_decoder_free(&self._d)

    @property
    def groups(self):
        return self._d.base.groups

    @property
    def samples_per_frame(self):
        return self._d.base.samples_per_frame

    @property
    def sizes(self):
        return tuple([self._d.base.sizes[i] for i in range(self._d.base.n_sizes)])

    @property
    def counts(self):
        return _counts(&self._d.counts, "frames")

    def reset(self):
        self._d.base.reset(&self._d.base)

    def decode(self, codes):
        cdef const int32_t[:, ::1] view = np.ascontiguousarray(codes, dtype=np.int32)
        if view.shape[0] < 1 or view.shape[0] > ET_MAX_CHUNK or view.shape[1] != self._d.base.groups:
            raise ValueError(f"codes has shape {np.shape(codes)}, allowed is [1..{ET_MAX_CHUNK}, {self._d.base.groups}]")
        cdef int n = view.shape[0], rc
        pcm = np.empty(n * self._d.base.samples_per_frame, np.float32)
        cdef float[::1] out = pcm
        with nogil:
            rc = self._d.base.decode(&self._d.base, &view[0, 0], n, &out[0])
        _check(rc, "decode")
        return pcm


def frame_codes(int frame, *, groups, vocab, codes):
    return [(31 * frame + 7) % codes] + [(13 * frame + 7 * g + 5) % vocab for g in range(1, groups)]


def frame_pcm(codes, int index, int samples_per_frame):
    cdef object mix = sum(int(code) * (2 * g + 1) for g, code in enumerate(codes))
    ramp = 257 * mix + 1031 * index + 97 * np.arange(samples_per_frame, dtype=np.int64)
    return ((ramp % 32749 - 16374) / 32768).astype(np.float32)
