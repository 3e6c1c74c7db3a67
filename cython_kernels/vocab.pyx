"""Byte-pair tokenizer of a vocab-only GGUF, by libllama."""

from libc.stdint cimport int32_t
from libc.stdlib cimport free, malloc

import os


cdef extern from "llama.h":
    ctypedef int32_t llama_token
    struct llama_model:
        pass
    struct llama_vocab:
        pass
    struct llama_model_params:
        bint vocab_only
        int32_t n_gpu_layers
    int LLAMA_VOCAB_TYPE_BPE
    enum ggml_log_level:
        GGML_LOG_LEVEL_NONE
    llama_model_params llama_model_default_params() nogil
    llama_model *llama_model_load_from_file(const char *path, llama_model_params params) nogil
    void llama_model_free(llama_model *model) nogil
    const llama_vocab *llama_model_get_vocab(const llama_model *model) nogil
    int32_t llama_vocab_n_tokens(const llama_vocab *vocab) nogil
    int llama_vocab_type_of "llama_vocab_type"(const llama_vocab *vocab) nogil
    const char *llama_vocab_get_text(const llama_vocab *vocab, llama_token token) nogil
    int32_t llama_tokenize(const llama_vocab *vocab, const char *text, int32_t text_len, llama_token *tokens,
                           int32_t n_tokens_max, bint add_special, bint parse_special) nogil
    ctypedef void (*ggml_log_callback)(ggml_log_level level, const char *text, void *user_data) noexcept nogil
    void llama_log_get(ggml_log_callback *callback, void **user_data) nogil
    void llama_log_set(ggml_log_callback callback, void *user_data) nogil


cdef void _quiet(ggml_log_level level, const char *text, void *user_data) noexcept nogil:
    pass


cdef class Vocab:
    """A tokenizer file, loaded once; `encode` may be called from several threads."""

    cdef llama_model *_model
    cdef const llama_vocab *_vocab
    cdef readonly int size

    def __cinit__(self, path):
        self._model = NULL
        self._vocab = NULL
        cdef bytes name = os.fsencode(path)
        if not os.path.isfile(name):
            raise FileNotFoundError(f"tokenizer file {os.fspath(path)!r} does not exist")
        cdef const char *c_name = name
        cdef llama_model_params params
        cdef ggml_log_callback log = NULL
        cdef void *log_data = NULL
        with nogil:
            # libllama prints every metadata key while loading: silence it for this call only.
            llama_log_get(&log, &log_data)
            llama_log_set(_quiet, NULL)
            params = llama_model_default_params()
            params.vocab_only = True
            params.n_gpu_layers = 0
            self._model = llama_model_load_from_file(c_name, params)
            llama_log_set(log, log_data)
        if self._model == NULL:
            raise ValueError(f"tokenizer file {os.fspath(path)!r} is not a vocabulary that libllama reads")
        self._vocab = llama_model_get_vocab(self._model)
        if llama_vocab_type_of(self._vocab) != LLAMA_VOCAB_TYPE_BPE:
            raise ValueError(f"tokenizer file {os.fspath(path)!r} is not a byte-pair vocabulary")
        self.size = llama_vocab_n_tokens(self._vocab)

    def __dealloc__(self):
        if self._model != NULL:
            llama_model_free(self._model)

    def encode(self, str text not None):
        cdef bytes data = text.encode("utf-8")
        if len(data) > 0x1000000:
            raise ValueError(f"text of {len(data)} bytes: at most 16777216 can be tokenised at once")
        cdef const char *c_text = data
        cdef int32_t length = <int32_t>len(data)
        # A token covers at least one byte, so this many always suffice.
        cdef int32_t room = length + 8
        cdef llama_token *tokens = <llama_token *>malloc(room * sizeof(llama_token))
        if tokens == NULL:
            raise MemoryError()
        cdef int32_t n
        try:
            with nogil:
                n = llama_tokenize(self._vocab, c_text, length, tokens, room, False, False)
            if n < 0:
                raise ValueError(f"libllama could not tokenise a text of {length} bytes")
            return [tokens[i] for i in range(n)]
        finally:
            free(tokens)

    def token(self, int index):
        if index < 0 or index >= self.size:
            raise IndexError(f"token id {index}: allowed are 0 to {self.size - 1}")
        return (<bytes>llama_vocab_get_text(self._vocab, index)).decode("utf-8", "replace")
