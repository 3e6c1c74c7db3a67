/* The state of a stream is kept in two copies. A run reads one and writes the other, then they change
 * places: the graph may write a state before its last reader has run, so in-place state would be right or
 * wrong by the order of the operators, and a failed run would leave half a state behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "et_decoder_litert_parts.h"
#include "weights/et_weight_file.h"

static int open_model(litert_decoder *d, const et_litert_config *c) {
    /* Only what is asked for: otherwise LiteRT searches for and loads every GPU and NPU plug-in. */
    const int accelerators = d->gpu ? LITERT_HW_CPU | LITERT_HW_GPU : LITERT_HW_CPU;
    const LiteRtEnvOption env_options[] = {
        {LITERT_ENV_AUTO_REGISTER_ACCELERATORS, {LITERT_ANY_INT, {.int_value = accelerators}}},
        {LITERT_ENV_MIN_LOG_SEVERITY, {LITERT_ANY_INT, {.int_value = LITERT_LOG_ERROR}}},
    };
    ET_LITERT_TRY(d, LiteRtCreateEnvironment(2, env_options, &d->env), "creating the LiteRT environment");
    ET_LITERT_TRY(d, LiteRtCreateModelFromFile(d->env, c->path, &d->model), "reading the model");
    return ET_OK;
}

static int compile_on_gpu(litert_decoder *d) {
    bool fully = false;
    ET_LITERT_TRY(d, LiteRtCreateOptions(&d->options), "creating options");
    ET_LITERT_TRY(d, LiteRtSetOptionsHardwareAccelerators(d->options, LITERT_HW_GPU), "choosing the GPU");
    ET_LITERT_TRY(d, LiteRtCreateCompiledModel(d->env, d->model, d->options, &d->compiled),
                  "compiling the model for the GPU");
    ET_LITERT_TRY(d, LiteRtCompiledModelIsFullyAccelerated(d->compiled, &fully), "asking what was delegated");
    d->fully_delegated = fully;
    return fully ? ET_OK : et_litert_fail(d, ET_E_BACKEND, "some operators do not run on the GPU");
}

static int compile_model(litert_decoder *d, const et_litert_config *c) {
    if (d->gpu)
        return compile_on_gpu(d);
    char toml[160];
    LiteRtOpaqueOptions cpu = NULL;
    if (c->cache_fd >= 0)
        snprintf(toml, sizeof toml, "num_threads = %d\nweight_cache_file_descriptor = %d\n", c->threads, c->cache_fd);
    else
        snprintf(toml, sizeof toml, "num_threads = %d\nweight_cache_file_path = \":memory\"\n", c->threads);
    ET_LITERT_TRY(d, LiteRtCreateOptions(&d->options), "creating options");
    ET_LITERT_TRY(d, LiteRtSetOptionsHardwareAccelerators(d->options, LITERT_HW_CPU), "choosing the CPU");
    char *text = strdup(toml);
    if (!text)
        return et_litert_fail(d, ET_E_MEMORY, "out of memory");
    LiteRtStatus status = LiteRtCreateOpaqueOptions("xnnpack", text, free, &cpu);
    if (status != LITERT_OK) {
        free(text);
        return et_litert_fail(d, ET_E_BACKEND, "creating CPU options: LiteRT status %d", status);
    }
    status = LiteRtAddOpaqueOptions(d->options, cpu);
    if (status != LITERT_OK) {
        LiteRtDestroyOpaqueOptions(cpu);
        return et_litert_fail(d, ET_E_BACKEND, "setting CPU options: LiteRT status %d", status);
    }
    ET_LITERT_TRY(d, LiteRtCreateCompiledModel(d->env, d->model, d->options, &d->compiled), "compiling the model");
    bool fully = false;
    ET_LITERT_TRY(d, LiteRtCompiledModelIsFullyAccelerated(d->compiled, &fully), "asking what was delegated");
    d->fully_delegated = fully;
    return ET_OK;
}

/* Everything that can be checked before compiling is checked before. */
static int load(litert_decoder *d, const et_litert_config *c) {
    int err;
    litert_io *all = calloc((size_t)c->n_sizes, sizeof *all);
    if (!all)
        return et_litert_fail(d, ET_E_MEMORY, "out of memory");
    err = open_model(d, c);
    for (int i = 0; !err && i < c->n_sizes; i++)
        err = et_litert_check_signature(d, &all[i], c->sizes[i], i == 0);
    if (!err && (err = compile_model(d, c)) == ET_OK)
        err = et_litert_make_states(d, &all[0]);
    for (int i = 0; !err && i < c->n_sizes; i++)
        if ((err = et_litert_check_computed(d, &all[i])) == ET_OK)
            err = et_litert_bind(d, &d->signatures[i], &all[i], c->sizes[i]);
    free(all);
    return err;
}

static int reset(et_decoder *base) {
    litert_decoder *d = base->self;
    for (int i = 0; i < d->n_states; i++) {
        litert_state *st = &d->states[i];
        if (!d->gpu)
            memset(st->data[d->current], 0, st->bytes);
        else if (et_litert_upload(st->buffer[d->current], NULL, st->bytes) != LITERT_OK)
            return ET_E_BACKEND;
    }
    return ET_OK;
}

static int decode(et_decoder *base, const int32_t *codes, int n, float *pcm) {
    litert_decoder *d = base->self;
    const size_t count = (size_t)(n > 0 ? n : 0) * (size_t)base->groups;
    litert_signature *sig = NULL;
    for (int i = 0; i < base->n_sizes; i++)
        if (base->sizes[i] == n)
            sig = &d->signatures[i];
    if (!sig)
        return ET_E_ARG;
    for (size_t i = 0; i < count; i++)
        if (codes[i] < 0 || codes[i] >= d->entries)
            return ET_E_ARG;
    if (!d->gpu)
        memcpy(sig->codes, codes, count * sizeof *codes);
    else if (et_litert_upload(sig->codes_buffer, codes, count * sizeof *codes) != LITERT_OK)
        return ET_E_BACKEND;
    const int way = d->current;
    const size_t n_io = (size_t)d->n_states + 1;
    if (LiteRtRunCompiledModel(d->compiled, sig->index, n_io, sig->inputs[way], n_io, sig->outputs[way]) != LITERT_OK)
        return ET_E_BACKEND;
    const size_t bytes = (size_t)n * (size_t)base->samples_per_frame * sizeof *pcm;
    if (d->gpu && et_litert_download(sig->pcm_buffer, pcm, bytes) != LITERT_OK)
        return ET_E_BACKEND;
    d->current = !way;
    if (!d->gpu)
        memcpy(pcm, sig->pcm, bytes);
    return ET_OK;
}

/* Once to let each size set itself up, once to see what it takes. The stream's state is zero again afterwards. */
static int warm_up(litert_decoder *d) {
    et_decoder *base = &d->base;
    const int largest = base->sizes[base->n_sizes - 1];
    int32_t *codes = calloc((size_t)largest * (size_t)base->groups, sizeof *codes);
    float *pcm = calloc((size_t)largest * (size_t)base->samples_per_frame, sizeof *pcm);
    int err = codes && pcm ? ET_OK : et_litert_fail(d, ET_E_MEMORY, "out of memory");
    for (int i = 0; !err && i < 2 * base->n_sizes; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        err = decode(base, codes, base->sizes[i / 2], pcm);
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (err)
            et_litert_fail(d, err, "the first run of signature decode_%d failed", base->sizes[i / 2]);
        base->warm_ns[i / 2] = (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec;
    }
    free(codes);
    free(pcm);
    return err ? err : reset(base);
}

static int check_config(litert_decoder *d, const et_litert_config *c) {
    if (c->groups < 1 || c->groups > ET_MAX_GROUPS)
        return et_litert_fail(d, ET_E_ARG, "groups is %d, allowed 1 to %d", c->groups, ET_MAX_GROUPS);
    if (c->samples_per_frame < 1 || c->samples_per_frame > ET_MAX_SPF)
        return et_litert_fail(d, ET_E_ARG, "samples_per_frame is %d, allowed 1 to %d", c->samples_per_frame,
                              ET_MAX_SPF);
    if (c->entries < 1 || c->entries > ET_MAX_VOCAB)
        return et_litert_fail(d, ET_E_ARG, "entries is %d, allowed 1 to %d", c->entries, ET_MAX_VOCAB);
    if (c->threads < 1 || c->threads > ET_MAX_THREADS)
        return et_litert_fail(d, ET_E_ARG, "threads is %d, allowed 1 to %d", c->threads, ET_MAX_THREADS);
    if (c->n_sizes < 1 || c->n_sizes > ET_MAX_SIZES)
        return et_litert_fail(d, ET_E_ARG, "chunks has %d sizes, allowed 1 to %d", c->n_sizes, ET_MAX_SIZES);
    for (int i = 0; i < c->n_sizes; i++)
        if (c->sizes[i] < 1 || c->sizes[i] > ET_MAX_CHUNK || (i && c->sizes[i] <= c->sizes[i - 1]))
            return et_litert_fail(d, ET_E_ARG, "chunks[%d] is %d, allowed 1 to %d, ascending", i, c->sizes[i],
                                  ET_MAX_CHUNK);
    return ET_OK;
}

int et_litert_create(et_decoder **out, const et_litert_config *c, char *error, size_t size) {
    int err;
    *out = NULL;
    litert_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        snprintf(error, size, "out of memory");
        return ET_E_MEMORY;
    }
    d->error = error;
    d->error_size = size;
    d->base.self = d;
    d->base.reset = reset;
    d->base.decode = decode;
    if ((err = check_config(d, c)) == ET_OK) {
        d->base.groups = c->groups;
        d->base.samples_per_frame = c->samples_per_frame;
        d->base.n_sizes = c->n_sizes;
        memcpy(d->base.sizes, c->sizes, sizeof(int) * (size_t)c->n_sizes);
        d->entries = c->entries;
        d->gpu = c->gpu;
        err = load(d, c);
        if (!err)
            err = warm_up(d);
        if (!err && !c->gpu && c->cache_fd >= 0) {
            /* The weights were read from the model's file once, to look them up in the cache. */
            et_drop_file_pages(c->path);
            err = warm_up(d);
        }
    }
    if (err != ET_OK) {
        et_litert_destroy(&d->base);
        return err;
    }
    *out = &d->base;
    return ET_OK;
}

void et_litert_destroy(et_decoder *base) {
    if (!base)
        return;
    litert_decoder *d = base->self;
    if (d->compiled)
        LiteRtDestroyCompiledModel(d->compiled);
    for (int i = 0; i < ET_MAX_SIZES; i++) {
        if (d->signatures[i].codes_buffer)
            LiteRtDestroyTensorBuffer(d->signatures[i].codes_buffer);
        if (d->signatures[i].pcm_buffer)
            LiteRtDestroyTensorBuffer(d->signatures[i].pcm_buffer);
        free(d->signatures[i].codes);
        free(d->signatures[i].pcm);
    }
    for (int i = 0; i < ET_MAX_STATES; i++)
        for (int copy = 0; copy < 2; copy++) {
            if (d->states[i].buffer[copy])
                LiteRtDestroyTensorBuffer(d->states[i].buffer[copy]);
            free(d->states[i].data[copy]);
        }
    if (d->options)
        LiteRtDestroyOptions(d->options);
    if (d->model)
        LiteRtDestroyModel(d->model);
    if (d->env)
        LiteRtDestroyEnvironment(d->env);
    free(d);
}

void et_litert_get_info(const et_decoder *base, et_litert_info *info) {
    const litert_decoder *d = base->self;
    info->n_states = d->n_states;
    info->state_bytes = d->state_bytes;
    info->fully_delegated = d->fully_delegated;
}
