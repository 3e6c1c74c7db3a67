"""Byte-pair encoding of text pieces with the vocabulary of a GGUF file."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

import os

from cython_kernels.pipe cimport ET_E_MEMORY, ET_OK


cdef extern from "vocab/et_vocab.h":
    ctypedef struct et_vocab:
        pass
    int et_vocab_load(et_vocab **out, const char *path, char *message, size_t size) nogil
    void et_vocab_free(et_vocab *v) nogil
    int et_vocab_tokens(const et_vocab *v) nogil
    int64_t et_vocab_encode(const et_vocab *v, const uint8_t *text, int32_t n, int32_t *ids) nogil

MAX_PIECE = 1 << 24


cdef class Vocab:
    """A tokenizer file, loaded once; `encode` may be called from several threads."""

    cdef et_vocab *_vocab

    def __cinit__(self, path):
        self._vocab = NULL
        cdef bytes name = os.fsencode(path)
        if not os.path.isfile(name):
            raise FileNotFoundError(f"tokenizer file {os.fspath(path)!r} does not exist")
        cdef const char *c_name = name
        cdef char message[256]
        cdef int result
        message[0] = 0
        with nogil:
            result = et_vocab_load(&self._vocab, c_name, message, sizeof(message))
        if result == ET_E_MEMORY:
            raise MemoryError(f"tokenizer file {os.fspath(path)!r} does not fit in memory")
        if result != ET_OK:
            said = (<bytes>message).decode("utf-8", "replace")
            raise ValueError(f"tokenizer file {os.fspath(path)!r}: {said}")

    def __dealloc__(self):
        et_vocab_free(self._vocab)

    @property
    def size(self):
        return et_vocab_tokens(self._vocab)

    def encode(self, pieces):
        cdef list out = []
        cdef bytes data
        cdef const uint8_t *text
        cdef int32_t *ids
        cdef int32_t length
        cdef int64_t count
        for piece in pieces:
            data = piece.encode("utf-8")
            if len(data) > MAX_PIECE:
                raise ValueError(f"piece of {len(data)} bytes: at most {MAX_PIECE} can be encoded")
            text = data
            length = <int32_t>len(data)
            ids = <int32_t *>malloc((length + 1) * sizeof(int32_t))
            if ids == NULL:
                raise MemoryError()
            try:
                with nogil:
                    count = et_vocab_encode(self._vocab, text, length, ids)
                if count < 0:
                    raise MemoryError()
                out.extend([ids[i] for i in range(count)])
            finally:
                free(ids)
        return out
