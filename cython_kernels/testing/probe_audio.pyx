"""Resampling and fades by themselves, as the sound device sink does them, for tests."""

from libc.stdint cimport int16_t, int64_t
from libc.stdlib cimport free, malloc

from cython_kernels.playout cimport within

cdef extern from "playout/et_resample.h" nogil:
    ctypedef enum et_sample:
        ET_S16
        ET_S32
        ET_S24
        ET_S24_3
        ET_F32
    ctypedef struct et_resample:
        size_t max_in
        size_t max_out
    int et_resample_init(et_resample *r, int in_rate, int out_rate, size_t max_in)
    void et_resample_free(et_resample *r)
    int et_resample_reset(et_resample *r)
    size_t et_resample_feed(et_resample *r, const int16_t *src, size_t n, float *out)
    size_t et_resample_flush(et_resample *r, float *out)
    size_t et_sample_bytes(et_sample format)
    void et_pack(const float *src, size_t n, et_sample format, int channels, unsigned char *dst)

cdef extern from "playout/et_fade.h" nogil:
    void et_fade_frames(unsigned char *frames, size_t count, et_sample format, int channels, int64_t i, int64_t n,
                        bint rising)

SAMPLE_FORMATS = {"S16": ET_S16, "S32": ET_S32, "S24": ET_S24, "S24_3": ET_S24_3, "F32": ET_F32}


def faded(frames, length, *, at=0, rising=False, format="S16", channels=1):
    if format not in SAMPLE_FORMATS:
        raise ValueError(f"format: {format!r} given, one of {', '.join(SAMPLE_FORMATS)} allowed")
    cdef et_sample sample = SAMPLE_FORMATS[format]
    cdef int width = within("channels", channels, 1, 32)
    cdef int64_t n = within("length", length, 0, 1 << 24)
    cdef int64_t i = within("at", at, 0, 1 << 24)
    cdef size_t one = et_sample_bytes(sample) * <size_t>width
    out = bytearray(frames)
    if len(out) % one:
        raise ValueError(f"frames: {len(out)} bytes given, a multiple of {one} allowed")
    cdef unsigned char[::1] view
    if out:
        view = out
        et_fade_frames(&view[0], <size_t>len(out) // one, sample, width, i, n, bool(rising))
    return bytes(out)


cdef class Converter:
    cdef et_resample resample
    cdef float *scratch
    cdef int channels
    cdef et_sample format

    def __cinit__(self, in_rate, out_rate, *, channels=1, format="S16", max_in=480):
        if format not in SAMPLE_FORMATS:
            raise ValueError(f"format: {format!r} given, one of {', '.join(SAMPLE_FORMATS)} allowed")
        self.format = SAMPLE_FORMATS[format]
        self.channels = within("channels", channels, 1, 32)
        cdef int err = et_resample_init(&self.resample, within("in_rate", in_rate, 4000, 384000),
                                        within("out_rate", out_rate, 4000, 384000),
                                        within("max_in", max_in, 1, 1 << 20))
        if err == 0:
            self.scratch = <float *>malloc(self.resample.max_out * sizeof(float))
        if self.scratch == NULL:
            raise MemoryError("Converter")

    def __dealloc__(self):
        et_resample_free(&self.resample)
        free(self.scratch)

    cdef bytes _packed(self, size_t n):
        out = bytearray(n * self.channels * et_sample_bytes(self.format))
        cdef unsigned char[::1] view
        if n:
            view = out
            et_pack(self.scratch, n, self.format, self.channels, &view[0])
        return bytes(out)

    def feed(self, const int16_t[::1] pcm):
        cdef size_t n = pcm.shape[0], done = 0, k
        out = []
        while done < n:
            k = min(n - done, self.resample.max_in)
            out.append(self._packed(et_resample_feed(&self.resample, &pcm[done], k, self.scratch)))
            done += k
        return b"".join(out)

    def flush(self):
        cdef size_t n
        out = []
        while True:
            n = et_resample_flush(&self.resample, self.scratch)
            if n == 0:
                return b"".join(out)
            out.append(self._packed(n))

    def reset(self):
        if et_resample_reset(&self.resample) < 0:
            raise MemoryError("Converter")
