"""Text rows of one segment, which may still come; see frame_loop/et_rows.h."""


from cython_kernels.pipe cimport Pipe, et_pipe


cdef extern from "frame_loop/et_rows.h" nogil:
    ctypedef struct et_rows:
        pass
    et_rows *et_rows_create(et_pipe *pipe, int hidden, size_t capacity, int *err)
    void et_rows_destroy(et_rows *r)
    size_t et_rows_write(et_rows *r, const float *rows, size_t n)
    void et_rows_close(et_rows *r)
    int et_rows_hidden(const et_rows *r)


cdef class TextRows:
    cdef et_rows *ptr
    cdef Pipe pipe
