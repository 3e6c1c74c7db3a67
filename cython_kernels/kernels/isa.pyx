"""How far products and attention of our own go in this process."""

import os


cdef extern from "kernels/et_isa.h":
    enum:
        ET_ISA_GENERIC
        ET_ISA_AVX512
        ET_ISA_AVX512_VNNI
    int et_isa() nogil

VARIABLE = "EDGETTSD_ISA"
CHOICES = ("auto", "generic")


def own_isa():
    """See isa.pyi."""
    cdef int level = et_isa()
    names = {ET_ISA_GENERIC: "generic", ET_ISA_AVX512: "avx512", ET_ISA_AVX512_VNNI: "avx512-vnni"}
    if level not in names:
        raise ValueError(f"{VARIABLE}={os.environ.get(VARIABLE)}: allowed are {', '.join(CHOICES)}")
    return names[level]
