"""The codec decoder through LiteRT; see decoder/et_decoder_litert.h."""

from libc.stdint cimport int32_t

import os
import threading

import numpy as np

from cython_kernels.pipe cimport ET_E_ARG, ET_E_MEMORY, DecoderHandle, et_decoder

from cython_kernels import _libs, _tflite_check, _weight_cache
from cython_kernels.limits cimport ET_MAX_SIZES

cdef extern from "decoder/et_decoder_litert.h" nogil:
    ctypedef struct et_litert_config:
        const char *path
        int groups
        int samples_per_frame
        int entries
        const int *sizes
        int n_sizes
        int threads
        int cache_fd
        int gpu
    ctypedef struct et_litert_info:
        int n_states
        size_t state_bytes
        int fully_delegated
    int et_litert_create(et_decoder **out, const et_litert_config *config, char *error, size_t size)
    void et_litert_destroy(et_decoder *decoder)
    void et_litert_get_info(const et_decoder *decoder, et_litert_info *info)

cdef extern from *:
    """
    static int run_decode(et_decoder *d, const int32_t *codes, int n, float *pcm) {
        return d->decode(d, codes, n, pcm);
    }
    """
    int run_decode(et_decoder *d, const int32_t *codes, int n, float *pcm) nogil


cdef class LiteRtDecoder(DecoderHandle):
    cdef readonly int groups
    cdef readonly int samples_per_frame
    cdef readonly int entries
    cdef readonly int threads
    cdef readonly tuple sizes
    cdef readonly str accelerator
    cdef object _cache
    cdef object _lock

    def __init__(self, path, *, int groups, int samples_per_frame, chunks=(1, 4, 8), int threads=2,
                 int entries=2048, cache_path=None, digest=None, accelerator="cpu", library=""):
        if self.decoder != NULL:
            raise RuntimeError("a LiteRtDecoder is initialised once")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"decoder file {os.fspath(path)!r} does not exist")
        if accelerator not in ("cpu", "gpu"):
            raise ValueError(f"accelerator is {accelerator!r}, allowed are cpu and gpu")
        self.accelerator = accelerator
        if accelerator == "gpu":
            _libs.preload_gpu(os.fspath(library))
        self.sizes = tuple(int(n) for n in chunks)
        self.groups, self.samples_per_frame, self.entries = groups, samples_per_frame, entries
        self.threads = threads
        self._lock = threading.Lock()
        self._cache = None
        if cache_path is not None and accelerator == "cpu":
            settings = dict(groups=groups, samples_per_frame=samples_per_frame, chunks=self.sizes, threads=1,
                            entries=entries)
            self._cache = _weight_cache.prepare(os.fspath(path), os.fspath(cache_path), digest, settings)
        fd = -1 if self._cache is None else self._cache.open()
        try:
            self._create(path, fd)
        except BaseException:
            # LiteRT may have come as far as to take the descriptor and close it.
            if fd >= 0 and _weight_cache.is_open(fd, self._cache.file):
                os.close(fd)
            raise
        # From here on the descriptor is LiteRT's, which closes it with the compiled model.

    cdef _create(self, path, int cache_fd):
        cdef et_litert_config config
        cdef int sizes[ET_MAX_SIZES]
        cdef char error[512]
        cdef int err
        cdef bytes name = os.fsencode(path)
        if not 1 <= len(self.sizes) <= ET_MAX_SIZES:
            raise ValueError(f"chunks has {len(self.sizes)} sizes, allowed 1 to {ET_MAX_SIZES}")
        for i, n in enumerate(self.sizes):
            sizes[i] = n
        config.path = name
        config.groups, config.samples_per_frame, config.entries = self.groups, self.samples_per_frame, self.entries
        config.sizes, config.n_sizes = sizes, len(self.sizes)
        config.threads, config.cache_fd = self.threads, cache_fd
        config.gpu = self.accelerator == "gpu"
        try:
            _tflite_check.check(path)
        except ValueError as problem:
            raise ValueError(f"decoder file {os.fspath(path)!r}: {problem}") from None
        error[0] = 0
        with nogil:
            err = et_litert_create(&self.decoder, &config, error, sizeof(error))
        if err == 0:
            return
        text = error.decode(errors="replace")
        if err == ET_E_MEMORY:
            raise MemoryError(text)
        raise ValueError(text if err == ET_E_ARG else f"decoder file {os.fspath(path)!r}: {text}")

    @staticmethod
    def _build(path, int cache_fd, settings):
        # Run by the child process of _weight_cache: pack the weights into the file and run every signature.
        cdef LiteRtDecoder d = LiteRtDecoder.__new__(LiteRtDecoder)
        d.sizes = tuple(settings["chunks"])
        d.groups, d.samples_per_frame = settings["groups"], settings["samples_per_frame"]
        d.entries, d.threads = settings["entries"], settings["threads"]
        d.accelerator = "cpu"
        d._lock = threading.Lock()
        d._create(path, cache_fd)
        for n in d.sizes:
            d.decode(np.zeros((n, d.groups), np.int32))

    def __dealloc__(self):
        et_litert_destroy(self.decoder)
        self.decoder = NULL

    @property
    def info(self):
        cdef et_litert_info info
        self._check()
        et_litert_get_info(self.decoder, &info)
        return {
            "version": _weight_cache.litert_version(),
            "accelerator": self.accelerator,
            "fully_delegated": bool(info.fully_delegated),
            "threads": self.threads,
            "states": info.n_states,
            "state_bytes": info.state_bytes,
            "weight_cache": "" if self._cache is None else self._cache.file,
            "weight_cache_problem": "" if self._cache is None else self._cache.problem,
        }

    def reset(self):
        self._check()
        with self._lock:
            self.decoder.reset(self.decoder)

    def decode(self, codes):
        cdef int err, n
        cdef const int32_t[:, ::1] view
        cdef float[::1] out
        self._check()
        array = np.ascontiguousarray(codes)
        if array.ndim != 2 or array.shape[1] != self.groups or array.dtype != np.int32:
            raise ValueError(f"codes is {array.dtype}{list(array.shape)}, allowed int32 [n, {self.groups}]")
        n = array.shape[0]
        if n not in self.sizes:
            raise ValueError(f"codes has {n} frames, allowed {', '.join(map(str, self.sizes))}")
        pcm = np.empty(n * self.samples_per_frame, np.float32)
        view, out = array, pcm
        with self._lock, nogil:
            err = run_decode(self.decoder, &view[0, 0], n, &out[0])
        if err == ET_E_ARG:
            raise ValueError(f"codes run from {array.min()} to {array.max()}, allowed 0 to {self.entries - 1}")
        if err:
            raise RuntimeError(f"LiteRT failed to run decode_{n} (error {err})")
        return pcm

    cdef _check(self):
        if self.decoder == NULL:
            raise RuntimeError("the decoder was not created")
