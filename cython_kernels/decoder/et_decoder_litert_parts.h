/* Inside of the LiteRT decoder, shared by its life, the check of its file and its buffers. */
#ifndef ET_DECODER_LITERT_PARTS_H
#define ET_DECODER_LITERT_PARTS_H

#include "et_decoder_litert.h"
#include "litert_c_api.h"

#define ET_LITERT_MAX_IO (ET_MAX_STATES + 1)

typedef struct {
    LiteRtParamIndex index;
    LiteRtTensorBuffer codes_buffer, pcm_buffer;
    int32_t *codes; /* [n][groups] */
    float *pcm;     /* [n * samples_per_frame] */
    /* In the order of the subgraph, for each of the two directions of the state. */
    LiteRtTensorBuffer inputs[2][ET_LITERT_MAX_IO], outputs[2][ET_LITERT_MAX_IO];
} litert_signature;

typedef struct {
    LiteRtRankedTensorType type;
    size_t bytes;
    float *data[2];
    LiteRtTensorBuffer buffer[2];
} litert_state;

typedef struct {
    et_decoder base;
    LiteRtEnvironment env;
    LiteRtModel model;
    LiteRtOptions options;
    LiteRtCompiledModel compiled;
    int entries;
    int n_states;
    int current; /* the copy that holds the stream's state */
    size_t state_bytes;
    int fully_delegated;
    int gpu; /* buffers are the GPU's; data, codes and pcm are not used */
    litert_state states[ET_MAX_STATES];
    litert_signature signatures[ET_MAX_SIZES];
    char *error;
    size_t error_size;
} litert_decoder;

/* One signature of the file: number 0 of each side is codes or pcm, number i + 1 is state i. */
typedef struct {
    LiteRtSignature signature;
    LiteRtSubgraph subgraph;
    LiteRtParamIndex index;
    const char *key;
    LiteRtParamIndex n[2]; /* inputs, outputs */
    LiteRtParamIndex at[2][ET_LITERT_MAX_IO];
    LiteRtRankedTensorType type[2][ET_LITERT_MAX_IO];
    unsigned char used[2][ET_LITERT_MAX_IO];
} litert_io;

enum { IN = 0, OUT = 1 }; /* the sides of a signature */

/* Each function that returns an int returns ET_OK, or an et_error with its reason in the decoder's text. */

/* --- et_decoder_litert_fail.c ------------------------------------------------------------------------------ */

/* Write the decoder's text; returns `code`. */
int et_litert_fail(litert_decoder *d, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Leave the function with an error where LiteRT reports one. */
#define ET_LITERT_TRY(d, call, what)                                                         \
    do {                                                                                     \
        LiteRtStatus status_ = (call);                                                       \
        if (status_ != LITERT_OK)                                                            \
            return et_litert_fail(d, ET_E_BACKEND, "%s: LiteRT status %d", what, status_);   \
    } while (0)

/* --- et_decoder_litert_signature.c: is the file what a decoder needs ------------------------------------- */

const char *et_litert_side_name(int side);
const char *et_litert_tensor_name(int side, int number, char name[16]);
/* Names, types and shapes of decode_n as the file declares them; the first signature says what the states are. */
int et_litert_check_signature(litert_decoder *d, litert_io *s, int n, int first);
/* The shapes of the outputs that the operators really produce, once compiled: the file may declare smaller ones, and
 * the kernels would then write past the end of our buffers. */
int et_litert_check_computed(litert_decoder *d, const litert_io *s);

/* --- et_decoder_litert_buffers.c: the memory that a signature runs on ------------------------------------ */

/* Both copies of every state, zero. `first` is a signature that has been checked; all have the same states. */
int et_litert_make_states(litert_decoder *d, const litert_io *first);
/* Codes and pcm of n frames, and the buffers of a run in the order of the subgraph. */
int et_litert_bind(litert_decoder *d, litert_signature *sig, const litert_io *s, int n);
/* Copy host memory into a buffer of the GPU; from NULL: zeros. */
LiteRtStatus et_litert_upload(LiteRtTensorBuffer buffer, const void *from, size_t bytes);
LiteRtStatus et_litert_download(LiteRtTensorBuffer buffer, void *to, size_t bytes);

#endif
