"""Generator and decoder loops; see frame_loop/et_generate.h and frame_loop/et_decode.h."""

from libc.stdint cimport int16_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from cython_kernels.limits cimport ET_MAX_GROUPS, ET_MAX_PERIOD, ET_MAX_VOCAB
from cython_kernels.pipe cimport DecoderHandle, Pipe, PredictorHandle, TalkerHandle, et_talker
from cython_kernels.pipe import ERROR_NAMES, REASON_NAMES
from cython_kernels.sampler cimport et_sampling
from cython_kernels.schedule cimport et_costs, et_schedule, read_schedule
from cython_kernels.text_rows cimport TextRows, et_rows_hidden


cdef et_sampling _sampling(p):
    return et_sampling(bool(p.do_sample), p.temperature, p.top_k, p.top_p, p.repetition_penalty)


cdef const float *_rows(array, int hidden, name, int *n) except? NULL:
    cdef const float[:, ::1] view
    if array.ndim != 2 or array.shape[1] != hidden or array.dtype != np.float32:
        raise ValueError(f"{name} is {array.dtype} {array.shape}: float32 [n, {hidden}] expected")
    n[0] = array.shape[0]
    if array.shape[0] == 0:
        return NULL
    view = array
    return &view[0, 0]


cdef int _plan(et_plan *c, plan, int talker_vocab, int local_vocab) except -1:
    kinds, sources = {"code": ET_PLAN_CODE, "stop": ET_PLAN_STOP}, {"talker": ET_PLAN_TALKER, "local": ET_PLAN_LOCAL}
    memset(c, 0, sizeof(et_plan))
    if not 1 <= len(plan.steps) <= ET_PLAN_STEPS:
        raise ValueError(f"plan has {len(plan.steps)} steps: allowed is 1 to {ET_PLAN_STEPS}")
    c.n = len(plan.steps)
    for i, step in enumerate(plan.steps):
        if step.kind not in kinds or step.source not in sources:
            raise ValueError(f"plan step {i} is {step}: kind is code or stop, source talker or local")
        vocab = step.vocab or (talker_vocab if step.source == "talker" else local_vocab)
        if step.kind == "code" and vocab > ET_MAX_VOCAB:
            raise ValueError(f"plan step {i} draws one of {vocab} codes: at most {ET_MAX_VOCAB} are allowed")
        c.steps[i] = et_plan_step(kinds[step.kind], sources[step.source], step.codebook, step.sampler, step.row, vocab,
                                  step.end)
    return 0


cdef class Generator:
    cdef et_generator g
    cdef et_plan plan
    cdef et_talker *talker
    cdef object keep
    cdef int groups, hidden, samplers
    cdef bint ready

    def __cinit__(self, Pipe pipe, TalkerHandle talker, PredictorHandle predictor, tables, plan, constant=None):
        cdef et_table c_tables[ET_MAX_GROUPS]
        cdef const unsigned char[:, ::1] view
        cdef const float[::1] row
        cdef const float *c_row = NULL
        cdef et_predictor *local = NULL if predictor is None else predictor.predictor
        cdef int local_vocab = 0 if predictor is None else local.vocab
        if len(tables) != pipe.groups:
            raise ValueError(f"tables: {len(tables)} given, {pipe.groups} expected")
        for i, table in enumerate(tables):
            if table.ndim != 2 or table.dtype not in (np.float32, np.float16) or not table.flags.c_contiguous:
                raise ValueError(f"table {i} is {table.dtype} {table.shape}: contiguous float16 or float32 [rows, dim]")
            view = table.view(np.uint8)
            c_tables[i].data = &view[0, 0]
            c_tables[i].rows, c_tables[i].dim = table.shape
            c_tables[i].f16 = table.dtype == np.float16
        if constant is not None:
            if constant.shape != (talker.talker.hidden,) or constant.dtype != np.float32:
                raise ValueError(f"constant is {constant.dtype} {constant.shape}: float32 [{talker.talker.hidden}] "
                                 "expected")
            row = np.ascontiguousarray(constant)
            c_row = &row[0]
        self.ready = False
        _plan(&self.plan, plan, talker.talker.vocab, local_vocab)
        cdef int err = et_generator_init(&self.g, pipe.ptr, talker.talker, local, c_tables, &self.plan, c_row)
        if err:
            inner = "none" if predictor is None else f"{local.input_hidden} x {local.vocab}, {local.steps} steps"
            raise ValueError(f"generator: {ERROR_NAMES[err]}: talker {talker.talker.hidden} x {talker.talker.vocab}, "
                             f"predictor {inner}, codebooks {pipe.groups}, tables {[t.shape for t in tables]} and "
                             f"plan {plan} do not fit together")
        self.ready = True
        self.talker = talker.talker
        self.groups = pipe.groups
        self.samplers = 1 + max(step.sampler for step in plan.steps)
        self.hidden = talker.talker.hidden
        self.keep = (pipe, talker, predictor, list(tables))

    def __dealloc__(self):
        if self.ready:
            et_generator_free(&self.g)

    def run(self, uint32_t generation, prompt, trailing, pad_row, *, samplers, banned=(),
            int min_frames=0, int max_frames=4096, int drop_frames=0, uint64_t seed=0, uint64_t stream=0,
            int collect=0, int repeat_frames=0, int repeat_period=0, int end_frames=0,
            int prefix=0):
        cdef et_segment seg
        cdef et_result r
        cdef const float[::1] pad
        cdef const uint8_t[::1] mask
        cdef int16_t[:, ::1] out
        cdef int16_t *codes = NULL
        cdef int n = 0
        memset(&seg, 0, sizeof(seg))
        cdef TextRows rows
        prompt = np.ascontiguousarray(prompt)
        seg.prompt = _rows(prompt, self.hidden, "prompt", &n)
        seg.n_prompt = n
        if n == 0:
            raise ValueError("prompt has no rows: at least 1 expected")
        if not 0 <= prefix <= n:
            raise ValueError(f"prefix is {prefix}: allowed is 0 to the prompt's {n} rows")
        seg.n_prefix = prefix
        if isinstance(trailing, TextRows):
            rows = trailing
            if et_rows_hidden(rows.ptr) != self.hidden:
                raise ValueError(f"trailing has rows of {et_rows_hidden(rows.ptr)}: {self.hidden} expected")
        else:
            _rows(np.ascontiguousarray(trailing), self.hidden, "trailing", &n)
            rows = TextRows.whole(self.keep[0], trailing)
        seg.rows = rows.ptr
        pad_row = np.ascontiguousarray(pad_row).reshape(1, -1)
        seg.pad_row = _rows(pad_row, self.hidden, "pad_row", &n)
        if len(samplers) != self.samplers:
            raise ValueError(f"samplers: {len(samplers)} given, {self.samplers} expected")
        for i, sampler in enumerate(samplers):
            seg.sampling[i] = _sampling(sampler)
        if len(banned) > self.plan.n:
            raise ValueError(f"banned: {len(banned)} masks given, the plan has {self.plan.n} steps")
        for i, ids in enumerate(banned):
            if ids is None:
                continue
            if ids.shape != (self.plan.steps[i].vocab,) or ids.dtype != np.uint8 or not ids.flags.c_contiguous:
                raise ValueError(f"banned[{i}] is {ids.dtype} {ids.shape}: uint8 [{self.plan.steps[i].vocab}] expected")
            mask = ids
            seg.banned[i] = &mask[0]
        if repeat_frames < 0 or not 0 <= repeat_period <= ET_MAX_PERIOD:
            raise ValueError(f"repeat_frames is {repeat_frames} and repeat_period {repeat_period}: "
                             f"allowed is 0 or more, and 0 to {ET_MAX_PERIOD}")
        if end_frames < 0:
            raise ValueError(f"end_frames is {end_frames}: allowed is 0 (off) or more")
        seg.min_frames = min_frames
        seg.bounds = et_bounds(generation, max_frames, drop_frames, end_frames, repeat_frames, repeat_period)
        seg.seed, seg.stream = seed, stream
        array = np.zeros((max(collect, 1), self.groups), np.int16)
        out = array
        if collect > 0:
            codes = &out[0, 0]
        with nogil:
            et_generate(&self.g, &seg, &r, codes, collect)
        result = {
            "frames": r.frames, "reason": REASON_NAMES[r.reason], "error": ERROR_NAMES[r.error],
            "begin_ns": r.begin_ns, "wall_ns": r.wall_ns, "prefill_ns": r.prefill_ns,
            "talker_ns": r.talker_ns, "predictor_ns": r.predictor_ns,
            "sample_ns": r.sample_ns, "wait_ns": r.wait_ns, "text_ns": r.text_ns, "turn_ns": r.turn_ns,
            "first_frame_ns": r.first_frame_ns,
            "substeps": r.substeps, "steps": r.steps,
        }
        if collect > 0:
            result["codes"] = array[:min(collect, r.frames)]
        return result


cdef class DecodeLoop:
    cdef et_decode d
    cdef object keep
    cdef bint ready

    def __cinit__(self, Pipe pipe, DecoderHandle decoder, *, kind="ramp", chunks=(1, 4, 8), int quiet_frames=0,
                  double quiet_db=40.0, double rate=1.0, expect=None):
        cdef et_schedule s
        read_schedule(&s, kind, chunks)
        self.ready = False
        if not 0 < rate <= 1000:
            raise ValueError(f"rate is {rate}: allowed is above 0 up to 1000")
        cdef int err = et_decode_init(&self.d, pipe.ptr, decoder.decoder, &s, rate)
        if err:
            raise ValueError(f"decoder: {ERROR_NAMES[err]}: decoder {decoder.decoder.groups} codebooks x "
                             f"{decoder.decoder.samples_per_frame} samples, smallest chunk {decoder.decoder.sizes[0]}; "
                             f"pipe {pipe.groups} x {pipe.samples_per_frame}; chunk sizes must begin with 1")
        self.ready = True
        if quiet_frames < 0 or not 0 < quiet_db <= 200:
            raise ValueError(f"quiet_frames is {quiet_frames} and quiet_db {quiet_db}: "
                             "allowed is 0 or more, and above 0 up to 200")
        et_quiet_init(&self.d.quiet, quiet_frames, quiet_db)
        for size, seconds in (expect or {}).items():
            if et_decode_expect(&self.d, size, seconds):
                raise ValueError(f"expect[{size}] is {seconds}: allowed is above 0 s, for 0 and the decoder's sizes")
        self.keep = (pipe, decoder)

    def __dealloc__(self):
        if self.ready:
            et_decode_free(&self.d)

    @property
    def rate(self):
        return et_decode_rate(&self.d)

    @property
    def costs(self):
        cdef const et_costs *c = &self.d.meter.costs
        return {0: c.frame, **{c.sizes[i]: c.chunk[i] for i in range(c.n_sizes)}}

    @property
    def spread(self):
        return self.d.meter.costs.spread

    @property
    def late(self):
        return self.d.meter.costs.late

    def counters(self):
        return {"decode_ns": et_decode_ns(&self.d), "chunks": et_decode_chunks(&self.d)}

    def run(self):
        with nogil:
            et_decode_loop(&self.d)
