"""The C of costs, chunk schedule and start policy."""

from libc.stdint cimport int64_t

from cython_kernels.limits cimport ET_MAX_SIZES, ET_MAX_STEPS


cdef extern from "schedule/et_cost.h" nogil:
    ctypedef struct et_costs:
        double frame
        int n_sizes
        int sizes[ET_MAX_SIZES]
        double chunk[ET_MAX_SIZES]
        int turns
        double spread
        double late
    ctypedef struct et_cost_meter:
        et_costs costs

cdef extern from "schedule/et_schedule.h" nogil:
    ctypedef struct et_schedule:
        int kind
        int n
        int chunks[ET_MAX_STEPS]
    ctypedef struct et_standing:
        int index
        int pending
        int queued
        int drop
        double ahead
    int et_schedule_check(const et_schedule *s)
    int et_schedule_next(const et_schedule *s, const et_costs *c, const et_standing *at)

cdef extern from "schedule/et_start.h" nogil:
    double et_start_shortage(const et_schedule *s, const et_costs *c, const et_standing *at, int remaining, int open)
    int64_t et_start_slower(int64_t frames, double rate, double slower)


# Raises ValueError naming what is not a schedule.
cdef int read_schedule(et_schedule *s, kind, chunks) except -1
