/* Byte-pair encoding with the vocabulary and merges of a GGUF file (GPT-2 byte alphabet).
 *
 * Pieces come in already split: what a piece is differs between tokenizers that share a vocabulary, and
 * libllama knows only approximations of the split that official checkpoints use. */
#ifndef ET_VOCAB_H
#define ET_VOCAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/et_types.h"

typedef struct et_vocab et_vocab;

/* Read a file. Returns ET_OK and *out, or ET_E_MEMORY, or ET_E_ARG with a message [size] that says what is
 * wrong with the file. */
int et_vocab_load(et_vocab **out, const char *path, char *message, size_t size);
void et_vocab_free(et_vocab *v);
int et_vocab_tokens(const et_vocab *v);

/* Ids of one piece of n bytes, in order; ids has room for n. Returns their number or ET_E_MEMORY.
 * Time n log n; safe to call from several threads. */
int64_t et_vocab_encode(const et_vocab *v, const uint8_t *text, int32_t n, int32_t *ids);

#endif
