"""The C of the frames' way into the pipe, for every source of frames."""

from libc.stdint cimport int64_t, uint32_t
from cython_kernels.pipe cimport et_item, et_pipe


cdef extern from "base/et_wait.h" nogil:
    int64_t et_now_ns()

cdef extern from "frame_loop/et_frames.h" nogil:
    ctypedef struct et_bounds:
        uint32_t generation
        int max_frames
        int drop_frames
        int end_frames
        int repeat_frames
        int repeat_period
    ctypedef struct et_frames:
        et_item item
        int frames
        int64_t wait_ns
        int64_t first_ns
    int et_frames_begin(et_frames *f, et_pipe *pipe, const et_bounds *bounds)
    int et_frames_admit(et_frames *f, int c0)
    int et_frames_push(et_frames *f, int64_t cost_ns)
    int et_frames_end(et_frames *f)
    int et_frames_wait(et_pipe *p, uint32_t generation, int fd, int timeout_ms)
    int et_frames_doze(et_pipe *p, uint32_t generation)
    int et_frames_reason(int error)
