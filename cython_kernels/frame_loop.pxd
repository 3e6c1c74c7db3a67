"""The C of the loops and of runaway detection."""

from libc.stdint cimport int16_t, int64_t, uint8_t, uint64_t

from cython_kernels.frames cimport et_bounds
from cython_kernels.pipe cimport et_decoder, et_pipe, et_predictor, et_talker
from cython_kernels.sampler cimport et_sampling
from cython_kernels.schedule cimport et_cost_meter, et_schedule
from cython_kernels.text_rows cimport et_rows


cdef extern from "frame_loop/et_plan.h" nogil:
    enum:
        ET_PLAN_STEPS
        ET_PLAN_CODE
        ET_PLAN_STOP
        ET_PLAN_TALKER
        ET_PLAN_LOCAL
    ctypedef struct et_plan_step:
        int kind
        int source
        int codebook
        int sampler
        int row
        int vocab
        int end
    ctypedef struct et_plan:
        int n
        et_plan_step steps[ET_PLAN_STEPS]

cdef extern from "frame_loop/et_generate.h" nogil:
    ctypedef struct et_table:
        const void *data
        int rows
        int dim
        int f16
    ctypedef struct et_generator:
        pass
    ctypedef struct et_segment:
        et_bounds bounds
        const float *prompt
        int n_prompt
        int n_prefix
        et_rows *rows
        const float *pad_row
        et_sampling sampling[ET_PLAN_STEPS]
        const uint8_t *banned[ET_PLAN_STEPS]
        int min_frames
        uint64_t seed
        uint64_t stream
    ctypedef struct et_result:
        int frames
        int reason
        int error
        int64_t begin_ns
        int64_t wall_ns
        int64_t prefill_ns
        int64_t talker_ns
        int64_t predictor_ns
        int64_t sample_ns
        int64_t wait_ns
        int64_t text_ns
        int64_t turn_ns
        int64_t first_frame_ns
        int substeps
        int steps
    int et_generator_init(et_generator *g, et_pipe *pipe, et_talker *talker, et_predictor *predictor,
                          const et_table *tables, const et_plan *plan, const float *constant)
    void et_generator_free(et_generator *g)
    void et_generate(et_generator *g, const et_segment *seg, et_result *result, int16_t *codes, int max_codes)

cdef extern from "frame_loop/et_runaway.h" nogil:
    ctypedef struct et_quiet:
        int limit
        double ratio
        double loudest
        int quiet
    ctypedef struct et_repeat:
        pass
    void et_quiet_init(et_quiet *q, int limit, double db)
    void et_quiet_begin_utterance(et_quiet *q)
    int et_quiet_frame(et_quiet *q, const float *pcm, size_t n)
    void et_repeat_begin(et_repeat *r, int limit, int longest)
    int et_repeat_code(et_repeat *r, int code)

cdef extern from "frame_loop/et_decode.h" nogil:
    ctypedef struct et_decode:
        et_cost_meter meter
        et_quiet quiet
    int et_decode_init(et_decode *d, et_pipe *pipe, et_decoder *decoder, const et_schedule *schedule, double rate)
    int et_decode_expect(et_decode *d, int size, double seconds)
    double et_decode_rate(const et_decode *d)
    void et_decode_free(et_decode *d)
    void et_decode_loop(et_decode *d)
    int64_t et_decode_ns(const et_decode *d)
    int64_t et_decode_chunks(const et_decode *d)
