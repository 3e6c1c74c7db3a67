/* How far products and attention of our own may go: what the CPU has and EDGETTSD_ISA allows, looked at once. */
#ifndef ET_ISA_H
#define ET_ISA_H

/* Each has the instructions of those before it. */
enum {
    ET_ISA_UNKNOWN = -1,    /* EDGETTSD_ISA has no value that is known; nothing of our own is used */
    ET_ISA_GENERIC,         /* nothing of our own: ggml and libllama compute */
    ET_ISA_AVX512,          /* with BW, VL and DQ */
    ET_ISA_AVX512_VNNI,
};

/* One of these. */
int et_isa(void);

#endif
