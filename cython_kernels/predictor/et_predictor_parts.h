/* Inside of the ggml code predictor, shared by its weights, its graphs and its C table. */
#ifndef ET_PREDICTOR_PARTS_H
#define ET_PREDICTOR_PARTS_H

#include <ggml.h>

#include "kernels/et_ggml_graphs.h"
#include "weights/et_gguf.h"
#include "kernels/et_matvec.h"
#include "et_predictor.h"

/* Buffer types that weights may go to: what the CPU offers beside the plain one, and that one last. */
#define ET_PREDICTOR_MAX_BUFTS 8

typedef struct {
    int hidden, input_hidden, layers, ffn, heads, kv_heads, head_dim, vocab, groups;
    float eps, theta;
} et_predictor_shape;

typedef struct {
    struct ggml_tensor *attn_norm, *qkv, *attn_output, *ffn_norm, *gate_up, *ffn_down;
    float *q_norm, *k_norm;           /* [head_dim] */
    float *k_cache, *v_cache;         /* [kv_heads][groups][head_dim]; groups is also the number of positions */
} et_predictor_layer;

typedef struct et_predictor_model et_predictor_model;

/* What one attention node of one graph works on. */
typedef struct {
    const et_predictor_model *model;
    const et_predictor_layer *layer;
    int first_position;
} et_attention;

typedef struct {
    struct ggml_cgraph *graph;
    ggml_backend_graph_plan_t plan;
    struct ggml_tensor *logits;
} et_substep;

struct et_predictor_model {
    et_predictor base;
    et_predictor_shape shape;

    /* weights */
    struct ggml_context *tensors;
    ggml_backend_buffer_t buffers[ET_PREDICTOR_MAX_BUFTS + 1];  /* and the input's */
    int n_buffers;
    size_t moved[ET_PREDICTOR_MAX_BUFTS + 1];   /* bytes of each that lie in a file of their own */
    void *own;                        /* weights for et_matvec; tensors there have no buffer */
    size_t own_bytes, own_moved;
    size_t weight_bytes, repacked_bytes;
    struct ggml_tensor *input_proj, *input_bias;   /* NULL when the sizes are equal */
    struct ggml_tensor *output_norm, *heads[ET_MAX_GROUPS];
    et_predictor_layer layers[ET_MAX_PREDICTOR_LAYERS];
    float *floats;                    /* one block: norms, caches, rotation table */
    float *cosine, *sine;             /* [groups][head_dim / 2] */

    /* graphs */
    struct ggml_context *nodes;
    struct ggml_tensor *input;        /* [2][input_hidden] */
    const et_ggml_cpu *cpu;
    et_ggml_graphs graphs;
    et_attention *attentions;         /* [groups - 1][layers] */
    et_matvec products[4 * ET_MAX_PREDICTOR_LAYERS + ET_MAX_GROUPS];   /* one for each matrix in `own` */
    int n_products;
    bool use_own;                     /* where this CPU can */
    et_substep substeps[ET_MAX_GROUPS];
    int next_group;                   /* codebook whose row next() takes */
};

/* Each returns ET_OK or an error with a message in the file's or the given buffer. */
int et_predictor_load(et_predictor_model *m, et_gguf *g);
/* A place for every tensor in m->tensors: n_matrices, then vectors, n_tensors together. */
int et_predictor_place(et_predictor_model *m, et_gguf *g, int n_matrices, int n_tensors);
int et_predictor_build(et_predictor_model *m, int threads, char *err, size_t err_size);

/* The attention of one layer as a ggml custom operation: the argument holds q, k and v of n positions, the
 * result [rows][heads * head_dim] is for the last `rows` of them. */
void et_predictor_attend(struct ggml_tensor *dst, int ith, int nth, void *attention);

#endif
