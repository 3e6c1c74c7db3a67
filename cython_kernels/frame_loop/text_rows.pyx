"""Text rows of one segment, which may still come; see et_rows.h."""

from cython_kernels.pipe cimport Pipe
import numpy as np
from cython_kernels.pipe import ERROR_NAMES


cdef class TextRows:
    def __cinit__(self, Pipe pipe, int hidden, size_t capacity=1024):
        cdef int err = 0
        self.ptr = et_rows_create(pipe.ptr, hidden, capacity, &err)
        if self.ptr == NULL:
            raise ValueError(f"text rows: {ERROR_NAMES.get(err, err)}: hidden={hidden}, capacity={capacity}")
        self.pipe = pipe

    def __dealloc__(self):
        et_rows_destroy(self.ptr)

    @staticmethod
    def whole(Pipe pipe, rows):
        made = TextRows(pipe, rows.shape[1], len(rows))
        made.write(rows)
        made.close()
        return made

    def write(self, rows):
        cdef const float[:, ::1] view
        cdef size_t n, written
        cdef int hidden = et_rows_hidden(self.ptr)
        if rows.ndim != 2 or rows.shape[1] != hidden or rows.dtype != np.float32:
            raise ValueError(f"rows are {rows.dtype} {rows.shape}: float32 [n, {hidden}] expected")
        n = rows.shape[0]
        if n == 0:
            return 0
        view = np.ascontiguousarray(rows)
        with nogil:
            written = et_rows_write(self.ptr, &view[0, 0], n)
        return written

    def close(self):
        et_rows_close(self.ptr)
