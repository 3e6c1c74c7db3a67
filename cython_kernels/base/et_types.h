/* Constants shared by every part of the hot path. */
#ifndef ET_TYPES_H
#define ET_TYPES_H

#include <stdint.h>

#include "et_limits.h"

/* Error codes: negative, never errno values. */
enum et_error {
    ET_OK = 0,
    ET_E_ARG = -1001,      /* a size or value out of range */
    ET_E_MEMORY = -1002,
    ET_E_CONTEXT = -1003,  /* no position left in the talker's context */
    ET_E_BACKEND = -1004,  /* libllama, ggml or LiteRT failed */
    ET_E_STALE = -1005,    /* the generation is no longer the live one */
    ET_E_STOPPED = -1006,  /* the pipe is shutting down */
    ET_E_RUNAWAY = -1007,  /* the decoder has ended the generation: nothing but silence comes */
};

/* Why an utterance or a segment ended; order as in edgettsd.engine._api.Reason. */
enum et_reason {
    ET_REASON_NONE = 0,
    ET_COMPLETED,
    ET_ABORTED,
    ET_REPLACED,
    ET_RUNAWAY,
    ET_LIMIT,
    ET_DEVICE,
    ET_ERROR,
};

#endif
