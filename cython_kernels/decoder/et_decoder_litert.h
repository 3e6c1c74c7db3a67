/* The codec decoder through LiteRT: a TFLite file with one signature per chunk size and explicit state. */
#ifndef ET_DECODER_LITERT_H
#define ET_DECODER_LITERT_H

#include <stddef.h>

#include "et_decoder.h"


typedef struct {
    const char *path;      /* the TFLite file */
    int groups;            /* codebooks of a frame, 1..ET_MAX_GROUPS */
    int samples_per_frame; /* 1..ET_MAX_SPF */
    int entries;           /* codes are 0 .. entries - 1 */
    const int *sizes;      /* chunk sizes to use, ascending; signature decode_N for each */
    int n_sizes;           /* 1..8 */
    int threads;           /* compute threads, the calling one included; the others inherit its affinity */
    int cache_fd;          /* open file of packed weights, read-only to load it or empty and writable to
                            * build it; -1 shares the packed weights of the signatures in memory.
                            * It may be closed after the call. */
    int gpu;               /* run every operator on LiteRT's GPU accelerator, the state in its memory; an error
                            * when there is none or an operator is not supported. cache_fd is not used. */
} et_litert_config;

typedef struct {
    int n_states;
    size_t state_bytes;  /* of one copy of the state */
    int fully_delegated; /* every operator runs in XNNPACK, or on the GPU */
} et_litert_info;

/* Load, check and compile; everything that decode() needs is allocated here. The compute threads are
 * created by the calling thread. Returns ET_OK, or an et_error with its reason in error[size]. */
int et_litert_create(et_decoder **out, const et_litert_config *config, char *error, size_t size);

/* Frees the decoder; NULL is allowed. */
void et_litert_destroy(et_decoder *decoder);

void et_litert_get_info(const et_decoder *decoder, et_litert_info *info);

#endif
