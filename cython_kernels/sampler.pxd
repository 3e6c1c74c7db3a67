"""The sampler's C, for the sampler by itself and for the frame loop."""

from libc.stdint cimport uint8_t, uint64_t


cdef extern from "sampling/et_sampler.h" nogil:
    ctypedef struct et_sampling:
        int do_sample
        float temperature
        int top_k
        float top_p
        float repetition_penalty
    ctypedef struct et_sampler:
        float *work
        uint8_t *seen
    ctypedef struct et_constraint:
        const uint8_t *banned
        int eos
        int ban_eos
    int et_sampler_init(et_sampler *s, int vocab)
    void et_sampler_free(et_sampler *s)
    void et_sampler_restart(et_sampler *s, uint64_t seed, uint64_t stream)
    void et_sampler_process(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c)
    int et_sampler_draw(et_sampler *s, const float *logits, int vocab, const et_sampling *p, const et_constraint *c)
    void et_sampler_accept(et_sampler *s, int id)
