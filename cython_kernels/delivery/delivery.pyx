"""Renders on their way into clients' descriptors; see delivery/et_delivery.h."""

import os

from libc.errno cimport EINVAL
from libc.stdint cimport int64_t, uint64_t

from cython_kernels.pipe cimport SinkHandle, et_sink

cdef extern from "delivery/et_delivery.h" nogil:
    ctypedef struct et_store:
        pass
    ctypedef struct et_delivery:
        pass
    ctypedef struct et_delivery_config:
        int fd
        int rate
        bint wav
        uint64_t memory
    enum:
        ET_DELIVERY_LOST
    int et_fd_kind(int fd, const char **why)
    et_store *et_store_new(const char *folder, uint64_t bytes, int *err)
    void et_store_stop(et_store *s)
    void et_store_release(et_store *s)
    int et_store_bell(const et_store *s)
    uint64_t et_store_used(et_store *s)
    int et_store_failed(et_store *s)
    et_delivery *et_delivery_new(et_store *s, const et_delivery_config *config, int *err)
    et_sink *et_delivery_sink(et_delivery *d)
    void et_delivery_unref(et_delivery *d)
    void et_delivery_cancel(et_delivery *d)
    void et_delivery_kick(et_delivery *d)
    void et_delivery_skip(et_delivery *d, uint64_t n)
    bint et_delivery_over(const et_delivery *d)
    int et_delivery_error(const et_delivery *d)
    uint64_t et_delivery_frames(const et_delivery *d)
    uint64_t et_delivery_bytes(const et_delivery *d)
    int64_t et_delivery_stuck_since(const et_delivery *d)
    int64_t et_delivery_full_since(const et_delivery *d)
    uint64_t et_delivery_room(const et_delivery *d)

# What et_fd_kind answers.
KINDS = ("", "pipe", "socket", "file")
MIN_MEMORY = 65536
LOST = ET_DELIVERY_LOST


def descriptor_kind(int fd):
    cdef const char *why = NULL
    cdef int kind
    with nogil:
        kind = et_fd_kind(fd, &why)
    if kind == 0:
        raise ValueError(why.decode())
    return KINDS[kind]


cdef int _checked(int err, str name) except -1:
    if err == -EINVAL:
        raise ValueError(f"{name}: parameters out of range")
    raise OSError(-err, f"{name}: {os.strerror(-err)}")


cdef class Store:
    cdef et_store *ptr

    def __cinit__(self, folder, uint64_t size):
        cdef int err = 0
        cdef bytes path = b"" if folder is None else os.fsencode(folder)
        self.ptr = et_store_new(NULL if folder is None else <const char *>path, size, &err)
        if self.ptr == NULL:
            _checked(err, "Store")

    def __dealloc__(self):
        et_store_release(self.ptr)

    def close(self):
        et_store_stop(self.ptr)

    @property
    def bell(self):
        return et_store_bell(self.ptr)

    @property
    def used(self):
        return et_store_used(self.ptr)

    @property
    def failed(self):
        return et_store_failed(self.ptr)


cdef class Spool(SinkHandle):
    cdef et_delivery *ptr

    def __init__(self, Store store not None, int fd, format="s16le", int rate=24000, *, uint64_t memory=MIN_MEMORY):
        if self.ptr != NULL:
            raise RuntimeError("Spool: initialised twice")
        if format not in ("s16le", "wav"):
            raise ValueError(f"format: {format!r} given, 's16le' or 'wav' allowed")
        cdef et_delivery_config c
        cdef int err = 0
        c.fd = fd
        c.rate = rate
        c.wav = format == "wav"
        c.memory = memory
        self.ptr = et_delivery_new(store.ptr, &c, &err)
        if self.ptr == NULL:
            _checked(err, "Spool")
        self.sink = et_delivery_sink(self.ptr)

    def __dealloc__(self):
        if self.ptr != NULL:
            if not et_delivery_over(self.ptr):
                et_delivery_cancel(self.ptr)
            et_delivery_unref(self.ptr)
            self.ptr = NULL

    def cancel(self):
        et_delivery_cancel(self.ptr)

    def kick(self):
        et_delivery_kick(self.ptr)

    def skip(self, uint64_t frames):
        et_delivery_skip(self.ptr, frames)

    @property
    def over(self):
        return et_delivery_over(self.ptr)

    @property
    def error(self):
        return et_delivery_error(self.ptr)

    @property
    def frames(self):
        return et_delivery_frames(self.ptr)

    @property
    def delivered(self):
        return et_delivery_bytes(self.ptr)

    @property
    def stuck_since(self):
        return et_delivery_stuck_since(self.ptr)

    @property
    def full_since(self):
        return et_delivery_full_since(self.ptr)

    @property
    def room(self):
        return et_delivery_room(self.ptr)
