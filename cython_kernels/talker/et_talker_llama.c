#include "et_talker_llama.h"

#include <limits.h>
#include <llama.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/et_finite.h"
#include "kernels/et_ggml_cpu.h"
#include "base/et_log.h"
#include "et_talker_file.h"
#include "et_talker_warm_up.h"
#include "weights/et_weight_file.h"

/* Rows of one llama_decode. Without flash attention the scores take heads * rows * context floats. */
#define MAX_BATCH 128
/* Rows of the warm-up: a usual prompt, so that libllama's output buffer has its size before the first one. */
#define WARM_ROWS 32
/* A context up to which sentences are taken to be short. */
#define FLASH_CONTEXT 512
/* Buffers of weights: of this CPU's layouts, and as they are in the file. */
#define MAX_BUFFERS 8

typedef struct {
    ggml_backend_buffer_t at[MAX_BUFFERS];
    int n;
} buffers;

typedef struct {
    et_talker base;
    struct llama_model *model;
    struct llama_context *context;
    llama_memory_t memory;
    const et_ggml_cpu *cpu;
    struct ggml_threadpool *pool;
    int batch_rows;
    bool looking;           /* for buffers */
    buffers weights, cache;
    size_t moved[MAX_BUFFERS];  /* bytes of each that lie in a file of their own */
    bool poisoned;          /* NaN in the KV cache: masked positions would spread it, so reset wipes the data */
    const float *hidden, *logits;
    llama_pos pos[MAX_BATCH];
    int32_t n_seq[MAX_BATCH];
    llama_seq_id seq, *seqs[MAX_BATCH];
    int8_t output[MAX_BATCH];
} et_llama;

/* --- memory ------------------------------------------------------------------------------------------- */

/* libllama shows the nodes of a graph before it computes them, and with them the buffers that they read and write: its
 * only way to tell where weights, keys and values lie. */
static bool see_node(struct ggml_tensor *node, bool ask, void *user)
{
    et_llama *t = user;
    for (int i = 0; t->looking && ask && i < GGML_MAX_SRC; i++) {
        ggml_backend_buffer_t buffer = node->src[i] ? node->src[i]->buffer : NULL;
        if (!buffer)
            continue;
        ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer));
        enum ggml_backend_buffer_usage usage = ggml_backend_buffer_get_usage(buffer);
        if ((device && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU)
            || usage == GGML_BACKEND_BUFFER_USAGE_COMPUTE)
            continue;
        buffers *list = usage == GGML_BACKEND_BUFFER_USAGE_WEIGHTS ? &t->weights : &t->cache;
        bool known = list->n == MAX_BUFFERS;
        for (int j = 0; j < list->n; j++)
            known |= list->at[j] == buffer;
        if (!known)
            list->at[list->n++] = buffer;
    }
    return false;
}

/* Positions that no sentence has reached take no memory. What is read of them before it is written is zero. */
static void empty_cache(const et_llama *t)
{
    for (int i = 0; i < t->cache.n; i++)
        et_empty_pages(ggml_backend_buffer_get_base(t->cache.at[i]), ggml_backend_buffer_get_size(t->cache.at[i]));
}

/* Weights that libllama rearranged go to files; those that it maps from the model's file stay there. */
static int move_weights(et_llama *t, const char *path)
{
    char name[PATH_MAX], problem[512];
    for (int i = 0; i < t->weights.n; i++) {
        if (snprintf(name, sizeof name, "%s.%d", path, i) >= (int)sizeof name)
            return ET_E_ARG;
        t->moved[i] = et_weight_file_map(name, ggml_backend_buffer_get_base(t->weights.at[i]),
                                         ggml_backend_buffer_get_size(t->weights.at[i]), problem, sizeof problem);
        t->base.file_bytes += t->moved[i];
    }
    return ET_OK;
}

/* --- the C table ------------------------------------------------------------------------------------- */

static int decode(et_llama *t, const float *rows, int n)
{
    for (int i = 0; i < n; i++)
        t->pos[i] = t->base.n_past + i;
    struct llama_batch batch = {
        .n_tokens = n,
        .embd = (float *)rows,  /* only read */
        .pos = t->pos,
        .n_seq_id = t->n_seq,
        .seq_id = t->seqs,
        .logits = t->output,
    };
    if (llama_decode(t->context, batch))
        return ET_E_BACKEND;
    t->base.n_past += n;
    t->hidden = llama_get_embeddings_ith(t->context, n - 1);
    t->logits = llama_get_logits_ith(t->context, n - 1);
    if (!t->hidden || !t->logits)
        return ET_E_BACKEND;
    if (!et_all_finite(t->hidden, t->base.hidden) || !et_all_finite(t->logits, t->base.vocab)) {
        t->poisoned = true;
        return ET_E_BACKEND;
    }
    return ET_OK;
}

static int feed(et_talker *base, const float *rows, int n)
{
    et_llama *t = base->self;
    if (n < 1)
        return ET_E_ARG;
    if (n > base->max_context - t->base.n_past)
        return ET_E_CONTEXT;
    if (!et_rows_finite(rows, n, base->hidden))
        return ET_E_BACKEND;
    int start = t->base.n_past;
    for (int done = 0; done < n;) {
        int part = n - done < t->batch_rows ? n - done : t->batch_rows;
        int rc = decode(t, rows + (size_t)done * base->hidden, part);
        if (rc) {
            llama_memory_seq_rm(t->memory, 0, start, -1);
            t->base.n_past = start;
            return rc;
        }
        done += part;
    }
    return ET_OK;
}

static int reset(et_talker *base)
{
    et_llama *t = base->self;
    llama_memory_clear(t->memory, t->poisoned);
    empty_cache(t);
    t->poisoned = false;
    t->base.n_past = 0;
    return ET_OK;
}

static int rewind_to(et_talker *base, int n)
{
    et_llama *t = base->self;
    if (t->poisoned || n < 0 || n > t->base.n_past || !llama_memory_seq_rm(t->memory, 0, n, -1))
        return ET_E_BACKEND;
    t->base.n_past = n;
    return ET_OK;
}

static const float *hidden_out(et_talker *base)
{
    return ((et_llama *)base->self)->hidden;
}

static const float *logits(et_talker *base)
{
    return ((et_llama *)base->self)->logits;
}

/* --- life -------------------------------------------------------------------------------------------- */

static pthread_once_t backend_once = PTHREAD_ONCE_INIT;

static int open_model(et_llama *t, const et_talker_config *config, const et_talker_shape *shape)
{
    pthread_once(&backend_once, llama_backend_init);
    et_log_begin();
    struct llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = config->n_gpu_layers;
    mp.load_mode = config->use_mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    t->model = llama_model_load_from_file(config->path, mp);
    if (!t->model)
        return -1;

    struct llama_context_params cp = llama_context_default_params();
    /* An f32 model must agree with the reference to the last code, so its cache is f32 too. */
    enum ggml_type kv = shape->type == GGML_TYPE_F32 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    t->batch_rows = config->max_context < MAX_BATCH ? config->max_context : MAX_BATCH;
    cp.n_ctx = (uint32_t)config->max_context;
    cp.n_batch = cp.n_ubatch = (uint32_t)t->batch_rows;
    cp.n_seq_max = 1;
    cp.n_threads = config->threads;
    cp.n_threads_batch = config->threads_batch;
    cp.pooling_type = LLAMA_POOLING_TYPE_NONE;
    /* On CPUs flash attention does without the padding to 256 positions but takes three times as long for each one:
     * it wins up to some 130 positions, which most sentences do not exceed. Its sums are f16, so only where the weights
     * are coarser than that. */
    bool flash = ggml_is_quantized(shape->type) && config->max_context <= FLASH_CONTEXT && config->n_gpu_layers <= 0;
    cp.flash_attn_type = flash ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.type_k = cp.type_v = kv;
    cp.embeddings = true;
    cp.offload_kqv = config->n_gpu_layers > 0;
    cp.op_offload = config->n_gpu_layers > 0;
    cp.no_perf = true;
    cp.cb_eval = see_node;
    cp.cb_eval_user_data = t;
    t->context = llama_init_from_model(t->model, cp);
    if (!t->context)
        return -1;

    /* Without a pool of its own every step would make one, and builds without OpenMP would start threads. */
    int threads = config->threads > config->threads_batch ? config->threads : config->threads_batch;
    struct ggml_threadpool_params pool = ggml_threadpool_params_default(threads);
    pool.poll = 0;  /* idle workers sleep: the predictor computes between two steps */
    t->pool = t->cpu->threadpool_new(&pool);
    if (!t->pool)
        return -1;
    llama_attach_threadpool(t->context, t->pool, t->pool);
    return 0;
}

static void free_llama(et_talker *base)
{
    et_llama *t = base->self;
    if (t->context)
        llama_free(t->context);
    for (int i = 0; i < t->weights.n; i++)
        if (t->moved[i])
            et_weight_file_unmap(ggml_backend_buffer_get_base(t->weights.at[i]),
                                 ggml_backend_buffer_get_size(t->weights.at[i]));
    if (t->model)
        llama_model_free(t->model);
    if (t->pool)
        t->cpu->threadpool_free(t->pool);
    free(t);
}

int et_llama_create(const et_talker_config *config, et_talker **out, char *err, size_t err_size)
{
    et_talker_shape shape;
    *out = NULL;
    if (et_talker_check_file(config->path, &shape, err, err_size))
        return ET_E_ARG;
    const et_ggml_cpu *cpu = et_ggml_cpu_get(err, err_size);
    if (!cpu)
        return ET_E_BACKEND;

    et_llama *t = calloc(1, sizeof *t);
    if (!t) {
        snprintf(err, err_size, "out of memory");
        return ET_E_MEMORY;
    }
    t->cpu = cpu;
    for (int i = 0; i < MAX_BATCH; i++) {
        t->n_seq[i] = 1;
        t->seqs[i] = &t->seq;
        t->output[i] = 1;  /* libllama gives hidden states of all rows or of none */
    }
    t->base = (et_talker){
        .self = t,
        .hidden = shape.hidden,
        .vocab = shape.vocab,
        .max_context = config->max_context,
        .reset = reset,
        .rewind = rewind_to,
        .feed = feed,
        .hidden_out = hidden_out,
        .logits = logits,
        .free = free_llama,
    };

    int rc = ET_E_BACKEND;
    if (open_model(t, config, &shape)) {
        et_log_describe(err, err_size, t->model ? "libllama cannot create a context" : "libllama refuses the model");
        rc = t->model ? ET_E_MEMORY : ET_E_ARG;
        goto failed;
    }
    t->memory = llama_get_memory(t->context);
    if (llama_model_n_embd(t->model) != shape.hidden
        || llama_vocab_n_tokens(llama_model_get_vocab(t->model)) != shape.vocab) {
        snprintf(err, err_size, "libllama sees %d values a row and a vocabulary of %d, the file says %d and %d",
                 llama_model_n_embd(t->model), llama_vocab_n_tokens(llama_model_get_vocab(t->model)), shape.hidden,
                 shape.vocab);
        rc = ET_E_ARG;
        goto failed;
    }
    t->looking = true;
    rc = et_talker_warm_up(&t->base, t->batch_rows < WARM_ROWS ? t->batch_rows : WARM_ROWS);
    t->looking = false;
    if (rc == ET_OK && config->weight_file)
        rc = move_weights(t, config->weight_file);
    if (rc == ET_OK && config->use_mmap) {
        /* Rearranged weights have been copied out of the file. */
        et_drop_file_pages(config->path);
        rc = et_talker_warm_up(&t->base, t->batch_rows < WARM_ROWS ? t->batch_rows : WARM_ROWS);
    }
    if (rc) {
        et_log_describe(err, err_size, "the warm-up step failed (weights not finite?)");
        goto failed;
    }
    *out = &t->base;
    return ET_OK;

failed:
    free_llama(&t->base);
    return rc;
}
