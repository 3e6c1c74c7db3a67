"""Chunk schedule and start policy; see schedule/et_schedule.h and schedule/et_start.h."""

from libc.string cimport memset

from cython_kernels.limits cimport ET_MAX_CHUNK, ET_MAX_STEPS

SCHEDULES = ("fixed", "ramp", "adaptive")


cdef int read_schedule(et_schedule *s, kind, chunks) except -1:
    if kind not in SCHEDULES:
        raise ValueError(f"schedule kind is {kind!r}: allowed is {', '.join(SCHEDULES)}")
    chunks = [int(c) for c in chunks]
    memset(s, 0, sizeof(et_schedule))
    s.kind = SCHEDULES.index(kind)
    s.n = len(chunks)
    if 1 <= len(chunks) <= ET_MAX_STEPS:
        for i, c in enumerate(chunks):
            s.chunks[i] = min(max(c, -1), 1 << 20)
    if et_schedule_check(s):
        raise ValueError(f"schedule chunks are {chunks}: allowed is 1 to {ET_MAX_STEPS} numbers "
                         f"from 1 to {ET_MAX_CHUNK}")
    return 0


def start_slower(int frames, double rate, double slower):
    return et_start_slower(frames, rate, slower)
