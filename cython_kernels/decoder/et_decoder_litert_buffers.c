/* The decoder's memory: plain host memory that LiteRT reads and writes in place, or buffers of the GPU. */
#include <stdlib.h>
#include <string.h>

#include "et_decoder_litert_parts.h"

#define PADDING 128 /* kernels may read a little past the end of an input */

static void *aligned(size_t bytes) {
    void *memory = NULL;
    size_t rounded = (bytes + PADDING + LITERT_HOST_ALIGNMENT - 1) & ~(size_t)(LITERT_HOST_ALIGNMENT - 1);
    if (posix_memalign(&memory, LITERT_HOST_ALIGNMENT, rounded))
        return NULL;
    memset(memory, 0, rounded);
    return memory;
}

static int ask_requirements(litert_decoder *d, const litert_io *s, int side, int number,
                            LiteRtTensorBufferRequirements *req) {
    const LiteRtParamIndex at = s->at[side][number];
    LiteRtStatus status = side == IN ? LiteRtGetCompiledModelInputBufferRequirements(d->compiled, s->index, at, req)
                                     : LiteRtGetCompiledModelOutputBufferRequirements(d->compiled, s->index, at, req);
    ET_LITERT_TRY(d, status, "asking for buffer requirements");
    return ET_OK;
}

/* The compiled model must take plain host memory of the size that the shape says. */
static int check_requirements(litert_decoder *d, const litert_io *s, int side, int number, size_t bytes) {
    char name[16];
    LiteRtTensorBufferRequirements req = NULL;
    int n = 0, type = 0, host = 0;
    size_t need = 0;
    int err = ask_requirements(d, s, side, number, &req);
    if (err)
        return err;
    ET_LITERT_TRY(d, LiteRtGetNumTensorBufferRequirementsSupportedBufferTypes(req, &n), "asking for buffer types");
    for (int i = 0; i < n; i++)
        if (LiteRtGetTensorBufferRequirementsSupportedTensorBufferType(req, i, &type) == LITERT_OK)
            host |= type == LITERT_BUFFER_HOST_MEMORY;
    ET_LITERT_TRY(d, LiteRtGetTensorBufferRequirementsBufferSize(req, &need), "asking for buffer sizes");
    if (d->gpu && need >= bytes)
        return ET_OK;
    if (!host || need != bytes)
        return et_litert_fail(d, ET_E_BACKEND,
                              "%s %s of signature %s: LiteRT wants %zu bytes%s, expected %zu of host memory",
                              et_litert_side_name(side), et_litert_tensor_name(side, number, name), s->key, need,
                              host ? "" : " on a device", bytes);
    return ET_OK;
}

/* For one tensor of a signature: in the GPU's memory, or around host memory that is made for it. */
static int make_buffer(litert_decoder *d, const litert_io *s, int side, int number, size_t bytes, void **memory,
                       LiteRtTensorBuffer *buffer) {
    const LiteRtRankedTensorType *type = &s->type[side][number];
    if (d->gpu) {
        LiteRtTensorBufferRequirements req = NULL;
        int err = ask_requirements(d, s, side, number, &req);
        if (err)
            return err;
        ET_LITERT_TRY(d, LiteRtCreateManagedTensorBufferFromRequirements(d->env, type, req, buffer),
                      "taking memory of the GPU");
        return ET_OK;
    }
    if (!(*memory = aligned(bytes)))
        return et_litert_fail(d, ET_E_MEMORY, "out of memory");
    ET_LITERT_TRY(d, LiteRtCreateTensorBufferFromHostMemory(type, *memory, bytes, NULL, buffer),
                  "wrapping host memory");
    return ET_OK;
}

LiteRtStatus et_litert_upload(LiteRtTensorBuffer buffer, const void *from, size_t bytes) {
    void *memory = NULL;
    LiteRtStatus status = LiteRtLockTensorBuffer(buffer, &memory, LITERT_LOCK_WRITE);
    if (status != LITERT_OK)
        return status;
    if (from)
        memcpy(memory, from, bytes);
    else
        memset(memory, 0, bytes);
    return LiteRtUnlockTensorBuffer(buffer);
}

LiteRtStatus et_litert_download(LiteRtTensorBuffer buffer, void *to, size_t bytes) {
    void *memory = NULL;
    LiteRtStatus status = LiteRtLockTensorBuffer(buffer, &memory, LITERT_LOCK_READ);
    if (status != LITERT_OK)
        return status;
    memcpy(to, memory, bytes);
    return LiteRtUnlockTensorBuffer(buffer);
}

int et_litert_make_states(litert_decoder *d, const litert_io *first) {
    int err;
    for (int i = 0; i < d->n_states; i++)
        for (int copy = 0; copy < 2; copy++) {
            litert_state *st = &d->states[i];
            if ((err = make_buffer(d, first, IN, i + 1, st->bytes, (void **)&st->data[copy],
                                   &st->buffer[copy])))
                return err;
            if (d->gpu)
                ET_LITERT_TRY(d, et_litert_upload(st->buffer[copy], NULL, st->bytes), "clearing memory of the GPU");
        }
    return ET_OK;
}

int et_litert_bind(litert_decoder *d, litert_signature *sig, const litert_io *s, int n) {
    const size_t codes_bytes = sizeof(int32_t) * (size_t)n * (size_t)d->base.groups;
    const size_t pcm_bytes = sizeof(float) * (size_t)n * (size_t)d->base.samples_per_frame;
    int err;
    sig->index = s->index;
    if ((err = make_buffer(d, s, IN, 0, codes_bytes, (void **)&sig->codes, &sig->codes_buffer)) ||
        (err = make_buffer(d, s, OUT, 0, pcm_bytes, (void **)&sig->pcm, &sig->pcm_buffer)))
        return err;
    for (int number = 0; number <= d->n_states; number++) {
        const litert_state *st = number ? &d->states[number - 1] : NULL;
        if ((err = check_requirements(d, s, IN, number, st ? st->bytes : codes_bytes)) ||
            (err = check_requirements(d, s, OUT, number, st ? st->bytes : pcm_bytes)))
            return err;
        for (int way = 0; way < 2; way++) {
            sig->inputs[way][s->at[IN][number]] = st ? st->buffer[way] : sig->codes_buffer;
            sig->outputs[way][s->at[OUT][number]] = st ? st->buffer[!way] : sig->pcm_buffer;
        }
    }
    return ET_OK;
}
