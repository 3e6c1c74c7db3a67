"""The sampler by itself, for tests; the frame loop uses the same C."""

from libc.stdint cimport uint8_t, uint64_t

import numpy as np

from cython_kernels.limits cimport ET_MAX_VOCAB


cdef class Sampler:
    cdef et_sampler s
    cdef int vocab
    cdef object banned

    def __cinit__(self, int vocab, *, banned=None):
        if et_sampler_init(&self.s, vocab):
            raise ValueError(f"vocab is {vocab}: allowed is 1 to {ET_MAX_VOCAB}")
        self.vocab = vocab
        self.banned = None
        if banned is not None:
            mask = np.zeros(vocab, np.uint8)
            mask[np.asarray(banned, np.int64)] = 1
            self.banned = mask

    def __dealloc__(self):
        et_sampler_free(&self.s)

    def restart(self, uint64_t seed, uint64_t stream=0):
        et_sampler_restart(&self.s, seed, stream)

    def accept(self, int token):
        if not 0 <= token < self.vocab:
            raise ValueError(f"token is {token}: allowed is 0 to {self.vocab - 1}")
        et_sampler_accept(&self.s, token)

    cdef void _constraint(self, et_constraint *c, int eos, bint ban_eos):
        cdef const uint8_t[::1] mask
        c.banned = NULL
        if self.banned is not None:
            mask = self.banned
            c.banned = &mask[0]
        c.eos, c.ban_eos = eos, ban_eos

    def probabilities(self, const float[::1] logits, *, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                      repetition_penalty=1.0, int eos=-1, bint ban_eos=False):
        cdef et_sampling p = et_sampling(do_sample, temperature, top_k, top_p, repetition_penalty)
        cdef et_constraint c
        if logits.shape[0] != self.vocab:
            raise ValueError(f"logits: {logits.shape[0]} given, {self.vocab} expected")
        self._constraint(&c, eos, ban_eos)
        et_sampler_process(&self.s, &logits[0], self.vocab, &p, &c)
        return np.array(<float[:self.vocab]>self.s.work)

    def draw(self, const float[::1] logits, *, do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
             repetition_penalty=1.0, int eos=-1, bint ban_eos=False):
        cdef et_sampling p = et_sampling(do_sample, temperature, top_k, top_p, repetition_penalty)
        cdef et_constraint c
        if logits.shape[0] != self.vocab:
            raise ValueError(f"logits: {logits.shape[0]} given, {self.vocab} expected")
        self._constraint(&c, eos, ban_eos)
        return et_sampler_draw(&self.s, &logits[0], self.vocab, &p, &c)
