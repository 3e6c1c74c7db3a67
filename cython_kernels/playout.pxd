"""The C of playout, and the base of every sink that is made in Python."""

from libc.stdint cimport uint64_t

from cython_kernels.pipe cimport SinkHandle, et_pipe, et_sink


cdef extern from "playout/et_sink.h" nogil:
    ctypedef struct et_alsa_config:
        const char *device
        int rate
        int device_rate
        int channels
        const char *format
        int period_ms
        int buffer_ms
        int keep_open_ms
        int stall_ms
        int fade_ms
        int drain
    ctypedef struct et_alsa_info:
        int rate
        int channels
        int period_frames
        int buffer_frames
        bint can_pause
        bint converts_rate
        char format[24]
    ctypedef struct et_fd_config:
        int fd
        int rate
        bint wav
        bint close_fd
        bint keep
        int stall_ms
    et_sink *et_sink_alsa_new(const et_alsa_config *config, int *err)
    void et_sink_alsa_info(const et_sink *s, et_alsa_info *info)
    et_sink *et_sink_fd_new(const et_fd_config *config, int *err)
    void et_sink_fd_end(et_sink *s)
    et_sink *et_sink_clock_new(int rate, double speed, size_t buffer, int *err)
    bint et_sink_in_use(const et_sink *s)
    uint64_t et_sink_opens(const et_sink *s)
    uint64_t et_sink_xruns(const et_sink *s)
    uint64_t et_sink_suspends(const et_sink *s)
    const char *et_sink_failed_step(const et_sink *s)
    int et_sink_open(et_sink *s)
    void et_sink_close(et_sink *s)
    void et_sink_destroy(et_sink *s)

cdef extern from "playout/et_playout.h" nogil:
    ctypedef struct et_playout:
        pass
    et_playout *et_playout_new(int preroll_ms, int postroll_ms)
    void et_playout_free(et_playout *o)
    void et_playout_set_sink(et_pipe *p, et_playout *o, et_sink *sink)
    bint et_playout_uses(et_playout *o, const et_sink *sink)
    void et_playout_loop(et_pipe *p, et_playout *o)


cdef int within(str name, value, int low, int high) except? -1

cdef class _Sink(SinkHandle):
    cdef object _made(self, int err)
    cdef object _idle(self)
