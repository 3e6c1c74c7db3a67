"""The talker: a model of architecture qwen3 over codec rows, by libllama or by products of our own."""

from libc.string cimport memcpy

import os

import numpy as np

from cython_kernels.limits cimport ET_MAX_CONTEXT, ET_MAX_GPU_LAYERS, ET_MAX_THREADS
from cython_kernels.pipe cimport ET_E_ARG, ET_E_CONTEXT, ET_E_MEMORY, ET_OK, TalkerHandle, et_talker

cdef extern from "talker/et_talker.h" nogil:
    ctypedef struct et_talker_config:
        const char *path
        int max_context
        int threads
        int threads_batch
        int n_gpu_layers
        bint use_mmap
        bint own_products
        const char *weight_file

cdef extern from "talker/et_talker_open.h" nogil:
    int et_talker_open(const et_talker_config *config, et_talker **out, char *err, size_t err_size)

MAX_CONTEXT = ET_MAX_CONTEXT
MAX_THREADS = ET_MAX_THREADS


cdef int _bounded(str field, value, int lowest, int highest) except? -1:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise ValueError(f"{field} is {value!r}, allowed is an integer from {lowest} to {highest}")
    return value


cdef class LlamaTalker(TalkerHandle):
    cdef readonly int threads
    cdef readonly int threads_batch
    cdef bint failed

    def __cinit__(self, path, *, max_context=4096, threads=2, threads_batch=None, bint use_mmap=True, n_gpu_layers=0,
                  weight_file=None, bint own_products=True):
        self.talker = NULL
        cdef bytes name = os.fsencode(path)
        if not os.path.isfile(name):
            raise FileNotFoundError(f"talker file {os.fspath(path)!r} does not exist")
        cdef et_talker_config config
        config.path = name
        config.max_context = _bounded("max_context", max_context, 1, MAX_CONTEXT)
        config.threads = _bounded("threads", threads, 1, MAX_THREADS)
        config.threads_batch = _bounded("threads_batch", threads if threads_batch is None else threads_batch,
                                        1, MAX_THREADS)
        config.n_gpu_layers = _bounded("n_gpu_layers", n_gpu_layers, 0, ET_MAX_GPU_LAYERS)
        config.use_mmap = use_mmap
        config.own_products = own_products
        cdef bytes kept = b"" if weight_file is None else os.fsencode(weight_file)
        config.weight_file = NULL
        if weight_file is not None:
            config.weight_file = kept
        self.threads = config.threads
        self.threads_batch = config.threads_batch
        cdef char err[1024]
        cdef int rc
        err[0] = 0
        with nogil:
            rc = et_talker_open(&config, &self.talker, err, sizeof(err))
        if rc == ET_E_MEMORY:
            raise MemoryError(f"talker {os.fspath(path)}: {err.decode('utf-8', 'replace')}")
        if rc != ET_OK:
            raise ValueError(f"talker {os.fspath(path)}: {err.decode('utf-8', 'replace')}")

    def __dealloc__(self):
        if self.talker != NULL:
            self.talker.free(self.talker)
            self.talker = NULL

    @property
    def own_products(self):
        return self.talker.own_products

    @property
    def file_bytes(self):
        return self.talker.file_bytes

    @property
    def hidden_size(self):
        return self.talker.hidden

    @property
    def vocab(self):
        return self.talker.vocab

    @property
    def max_context(self):
        return self.talker.max_context

    @property
    def n_past(self):
        return self.talker.n_past

    def feed(self, rows):
        cdef object array = np.ascontiguousarray(rows, dtype=np.float32)
        if array.ndim != 2 or array.shape[1] != self.talker.hidden or array.shape[0] < 1:
            raise ValueError(f"rows has shape {array.shape}, allowed is [n, {self.talker.hidden}] with n >= 1")
        cdef const float[:, ::1] view = array
        cdef int n = view.shape[0], rc
        with nogil:
            rc = self.talker.feed(self.talker, &view[0, 0], n)
        if rc == ET_E_CONTEXT:
            raise ValueError(f"rows: {n} more positions after {self.n_past} do not fit max_context "
                             f"{self.talker.max_context}")
        self.failed = rc != ET_OK
        if rc != ET_OK:
            raise RuntimeError(f"talker step failed (code {rc}): not finite, or refused by ggml")

    def reset(self):
        with nogil:
            self.talker.reset(self.talker)
        self.failed = False

    cdef _copy(self, const float *values, int n):
        if self.failed:
            raise RuntimeError("the last step failed")
        if self.talker.n_past == 0 or values == NULL:
            raise RuntimeError("nothing was fed since the last reset")
        out = np.empty(n, np.float32)
        cdef float[::1] view = out
        memcpy(&view[0], values, n * sizeof(float))
        return out

    def hidden(self):
        return self._copy(self.talker.hidden_out(self.talker), self.talker.hidden)

    def logits(self):
        return self._copy(self.talker.logits(self.talker), self.talker.vocab)
