"""Handles that the kernels pass to each other: plain C tables behind Python objects."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef extern from "base/et_types.h":
    enum:
        ET_OK
        ET_E_ARG
        ET_E_MEMORY
        ET_E_CONTEXT
        ET_E_BACKEND
        ET_E_STALE
        ET_E_STOPPED
        ET_E_RUNAWAY
        ET_REASON_NONE
        ET_COMPLETED
        ET_ABORTED
        ET_REPLACED
        ET_RUNAWAY
        ET_LIMIT
        ET_DEVICE
        ET_ERROR

cdef extern from "talker/et_talker.h" nogil:
    ctypedef struct et_talker:
        int hidden
        int vocab
        int max_context
        int n_past
        bint own_products
        size_t file_bytes
        int (*reset)(et_talker *) noexcept nogil
        int (*rewind)(et_talker *, int) noexcept nogil
        int (*feed)(et_talker *, const float *, int) noexcept nogil
        const float *(*hidden_out)(et_talker *) noexcept nogil
        const float *(*logits)(et_talker *) noexcept nogil
        void (*free)(et_talker *) noexcept nogil

cdef extern from "predictor/et_predictor.h" nogil:
    ctypedef struct et_predictor:
        int input_hidden
        int steps
        int vocab
        int (*begin)(et_predictor *, const float *, const float *, const float **) noexcept nogil
        int (*next)(et_predictor *, int, const float *, const float **) noexcept nogil

cdef extern from "decoder/et_decoder.h" nogil:
    ctypedef struct et_decoder:
        int groups
        int samples_per_frame
        int n_sizes
        int sizes[8]
        int (*reset)(et_decoder *) noexcept nogil
        int (*decode)(et_decoder *, const int32_t *, int, float *) noexcept nogil

cdef extern from "playout/et_sink.h":
    ctypedef struct et_sink:
        pass

cdef extern from "base/et_trace.h":
    enum:
        ET_STEP_PREFILL
        ET_STEP_FRAME
        ET_STEP_DECODE
        ET_STEP_TALKER
        ET_STEP_SAMPLE
        ET_STEP_WAIT
        ET_STEP_SUBSTEPS
        ET_STEP_DECODER
        ET_STEP_PUSH
        ET_STEP_PARTS
    ctypedef struct et_step:
        pass

cdef extern from "pipe/et_pipe.h" nogil:
    enum:
        ET_ITEM_FRAME
        ET_ITEM_SEG_BEGIN
        ET_ITEM_SEG_END
        ET_ITEM_WAIT
        ET_ITEM_PAUSE
        ET_ITEM_END
        ET_ITEM_RENDER
        ET_BLOCK_PCM
        ET_BLOCK_END
        ET_BLOCK_MARK
        ET_EV_FIRST_CHUNK
        ET_EV_STARTED
        ET_EV_FINISHED
        ET_EV_DROPPED
        ET_EV_UNDERRUN
        ET_EV_DEVICE
        ET_EV_DECODER
        ET_EV_SENTENCE
    ctypedef struct et_mark:
        double loudest
        int32_t trailing
        int32_t reserve
        int32_t sentence
    ctypedef struct et_item:
        uint32_t generation
        uint16_t kind
        uint16_t reason
        int32_t arg
        int16_t codes[32]
        et_mark mark
    ctypedef struct et_block:
        uint32_t generation
        uint16_t kind
        uint16_t reason
        uint32_t samples
        et_mark mark
    ctypedef struct et_event:
        uint32_t generation
        uint16_t kind
        uint16_t reason
        int64_t value
        int64_t t_ns
        et_mark mark
    ctypedef struct et_pipe_config:
        int groups
        int samples_per_frame
        int sample_rate
        size_t codes_capacity
        size_t pcm_capacity
        int64_t backpressure
    ctypedef struct et_ring:
        pass
    ctypedef struct et_pipe:
        et_pipe_config config
        et_ring items
        et_ring decoder_events
        et_ring playout_events
        et_ring generator_steps
        et_ring decoder_steps
        int loop_fd
        int turns
    et_pipe *et_pipe_create(const et_pipe_config *config, int *err)
    void et_pipe_destroy(et_pipe *p)
    uint32_t et_pipe_next_generation(et_pipe *p)
    void et_pipe_stop(et_pipe *p)
    void et_pipe_set_paused(et_pipe *p, bint paused)
    void et_pipe_wake_all(et_pipe *p)
    int et_pipe_push_item(et_pipe *p, const et_item *item)
    int et_pipe_pop_item(et_pipe *p, et_item *item, int timeout_ms)
    int et_pipe_push_pcm(et_pipe *p, uint32_t generation, const float *pcm, size_t n)
    int et_pipe_push_end(et_pipe *p, uint32_t generation, uint16_t reason)
    int et_pipe_front(et_pipe *p, et_block *block)
    size_t et_pipe_read(et_pipe *p, int16_t *dst, size_t n)
    void et_pipe_consume_end(et_pipe *p)
    size_t et_pipe_buffered(const et_pipe *p)
    int et_pipe_next_event(et_pipe *p, et_event *event)
    int et_pipe_trace(et_pipe *p)
    size_t et_ring_used(const et_ring *r)
    size_t et_ring_read(et_ring *r, void *dst, size_t n)

cdef extern from "pipe/et_pipe_atomics.h" nogil:
    uint32_t et_pipe_generation(const et_pipe *p)
    int et_pipe_is_stopping(const et_pipe *p)
    int et_pipe_is_paused(const et_pipe *p)
    int64_t et_pipe_pending_frames(const et_pipe *p)
    void et_pipe_set_plan(et_pipe *p, int64_t min_start, int64_t expected_frames)
    void et_pipe_set_expected(et_pipe *p, int64_t frames)
    void et_pipe_set_gain(et_pipe *p, float gain)
    uint64_t et_pipe_counter(const et_pipe *p, int which)
    int et_pipe_is_tracing(const et_pipe *p)
    uint64_t et_pipe_lost(const et_pipe *p)

cdef extern from "base/et_huge.h" nogil:
    size_t et_use_huge_pages(size_t least)


cdef class TalkerHandle:
    cdef et_talker *talker

cdef class PredictorHandle:
    cdef et_predictor *predictor

cdef class DecoderHandle:
    cdef et_decoder *decoder

cdef class SinkHandle:
    cdef et_sink *sink

cdef class Pipe:
    cdef et_pipe *ptr
