/* Inside of the talker by et_matvec: shared by its weights, its graphs and its C table. */
#ifndef ET_TALKER_MATVEC_PARTS_H
#define ET_TALKER_MATVEC_PARTS_H

#include "kernels/et_ggml_graphs.h"
#include "weights/et_gguf.h"
#include "et_talker.h"
#include "kernels/et_talker_attend.h"
#include "et_talker_file.h"

enum {
    ET_TALKER_PARTS = 4,    /* matrices of a layer: queries with keys and values, output, gate with up, down */
    ET_TALKER_SIZES = 3,    /* of graphs, by their rows */
    ET_TALKER_ROWS = 4,     /* of the largest */
};

typedef struct {
    et_talker_attention attention;
    const et_talker *talker;    /* knows the position */
} et_attention_node;

typedef struct {
    et_talker base;
    et_talker_shape shape;
    const et_ggml_cpu *cpu;
    void *packed;           /* all matrices */
    size_t packed_bytes;
    et_matvec *matrices;    /* [layers][ET_TALKER_PARTS], then the head's */
    et_attention_node *attentions;     /* [layers] */
    float *floats;          /* one block: what follows, and the norms */
    float *frequency;       /* [head_dim / 2] */
    float *cosine, *sine;   /* [most rows][head_dim / 2] */
    float *rows;            /* [most rows][hidden] */
    float *hidden;          /* [hidden] */
    float *scores;          /* [threads][2][context] */
    const float *output_norm, *logits;
    uint16_t *cache;        /* keys, then values, of each layer */
    size_t cache_bytes;
    struct ggml_context *nodes;
    et_ggml_graphs graphs;
    struct ggml_cgraph *graph[ET_TALKER_SIZES];
    struct ggml_tensor *last[ET_TALKER_SIZES], *result[ET_TALKER_SIZES];
    ggml_backend_graph_plan_t plan[ET_TALKER_SIZES];
} et_matvec_talker;

/* Sizes, memory, weights and norms, for so many threads. ET_OK with *found false where the file or the CPU is not for
 * et_matvec; else ET_E_ARG or ET_E_MEMORY with a message in the file's buffer. */
int et_talker_matvec_load(et_matvec_talker *t, et_gguf *g, int threads, bool *found);

#endif
