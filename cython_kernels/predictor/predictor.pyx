"""The code predictor: codebooks 1.. of one frame, as prebuilt ggml graphs."""

from libc.string cimport memcpy

import os

import numpy as np

from cython_kernels.limits cimport ET_MAX_THREADS
from cython_kernels.pipe cimport ET_E_ARG, ET_E_MEMORY, ET_OK, PredictorHandle, et_predictor

cdef extern from "predictor/et_predictor_ggml.h" nogil:
    int et_ggml_predictor_create(const char *path, int threads, const char *weight_file, bint own_products,
                                 et_predictor **out, char *err, size_t err_size)
    void et_ggml_predictor_free(et_predictor *p)
    int et_ggml_predictor_hidden(const et_predictor *p)
    int et_ggml_predictor_layers(const et_predictor *p)
    size_t et_ggml_predictor_weight_bytes(const et_predictor *p)
    size_t et_ggml_predictor_repacked_bytes(const et_predictor *p)
    size_t et_ggml_predictor_file_bytes(const et_predictor *p)

MAX_THREADS = ET_MAX_THREADS


cdef class GgmlPredictor(PredictorHandle):
    cdef readonly int threads

    def __cinit__(self, path, *, threads=2, weight_file=None, bint own_products=True):
        self.predictor = NULL
        cdef bytes name = os.fsencode(path)
        if not os.path.isfile(name):
            raise FileNotFoundError(f"predictor file {os.fspath(path)!r} does not exist")
        if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MAX_THREADS:
            raise ValueError(f"threads is {threads!r}, allowed is an integer from 1 to {MAX_THREADS}")
        self.threads = threads
        cdef const char *c_name = name
        cdef bytes kept = b"" if weight_file is None else os.fsencode(weight_file)
        cdef const char *c_kept = NULL
        if weight_file is not None:
            c_kept = kept
        cdef char err[1024]
        cdef int rc
        err[0] = 0
        with nogil:
            rc = et_ggml_predictor_create(c_name, self.threads, c_kept, own_products, &self.predictor, err, sizeof(err))
        if rc == ET_E_MEMORY:
            raise MemoryError(f"predictor {os.fspath(path)}: {err.decode('utf-8', 'replace')}")
        if rc != ET_OK:
            raise ValueError(f"predictor {os.fspath(path)}: {err.decode('utf-8', 'replace')}")

    def __dealloc__(self):
        if self.predictor != NULL:
            et_ggml_predictor_free(self.predictor)
            self.predictor = NULL

    @property
    def groups(self):
        return self.predictor.steps + 1

    @property
    def vocab(self):
        return self.predictor.vocab

    @property
    def input_hidden(self):
        return self.predictor.input_hidden

    @property
    def hidden_size(self):
        return et_ggml_predictor_hidden(self.predictor)

    @property
    def layers(self):
        return et_ggml_predictor_layers(self.predictor)

    @property
    def weight_bytes(self):
        return et_ggml_predictor_weight_bytes(self.predictor)

    @property
    def repacked_bytes(self):
        return et_ggml_predictor_repacked_bytes(self.predictor)

    @property
    def file_bytes(self):
        return et_ggml_predictor_file_bytes(self.predictor)

    cdef _row(self, str field, value):
        array = np.ascontiguousarray(value, dtype=np.float32)
        if array.shape != (self.predictor.input_hidden,):
            raise ValueError(f"{field} has shape {array.shape}, allowed is [{self.predictor.input_hidden}]")
        return array

    cdef _copy(self, int rc, const float *logits):
        if rc != ET_OK:
            raise RuntimeError(f"predictor step failed (code {rc}): not finite, or ggml failed")
        out = np.empty(self.predictor.vocab, np.float32)
        cdef float[::1] view = out
        memcpy(&view[0], logits, self.predictor.vocab * sizeof(float))
        return out

    def begin(self, hidden, row0):
        cdef const float[::1] h = self._row("hidden", hidden)
        cdef const float[::1] r = self._row("row0", row0)
        cdef const float *logits = NULL
        cdef int rc
        with nogil:
            rc = self.predictor.begin(self.predictor, &h[0], &r[0], &logits)
        return self._copy(rc, logits)

    def next(self, int group, row):
        cdef const float[::1] r = self._row("row", row)
        cdef const float *logits = NULL
        cdef int rc
        with nogil:
            rc = self.predictor.next(self.predictor, group, &r[0], &logits)
        if rc == ET_E_ARG:
            raise ValueError(f"group is {group}: rows of codebooks 1 to {self.predictor.steps - 1} follow begin "
                             f"one by one")
        return self._copy(rc, logits)
