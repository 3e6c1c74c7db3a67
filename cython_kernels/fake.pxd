"""The C of the scripted talker, predictor and decoder."""

from libc.stdint cimport int16_t, int64_t, uint8_t

from cython_kernels.pipe cimport et_decoder, et_predictor, et_talker


cdef extern from "testing/et_fake.h" nogil:
    ctypedef struct et_fake_tally:
        int64_t resets
        int64_t calls
        int64_t units
    ctypedef struct et_fake_talker:
        et_talker base
        et_fake_tally counts
        int codes
        int eos_after
        int eos_id
        int step_us
        int fail_at
        int16_t *script
        int n_script
        int period
    ctypedef struct et_fake_predictor:
        et_predictor base
        et_fake_tally counts
        int substep_us
        int fail_at
        bint decides
        int stop_after
    ctypedef struct et_fake_decoder:
        et_decoder base
        et_fake_tally counts
        int frame_us
        int fail_at
        uint8_t *levels
        int n_levels
        int by_chunk
    int et_fake_talker_init(et_fake_talker *t, int hidden, int vocab, int max_context)
    void et_fake_talker_free(et_fake_talker *t)
    int et_fake_predictor_init(et_fake_predictor *p, int input_hidden, int steps, int vocab)
    void et_fake_predictor_free(et_fake_predictor *p)
    void et_fake_decoder_free(et_fake_decoder *d)
    void et_fake_decoder_init(et_fake_decoder *d, int groups, int samples_per_frame, const int *sizes, int n_sizes)
