/* Graphs that are built once and computed again and again, by one set of threads and in one block of memory. */
#ifndef ET_GGML_GRAPHS_H
#define ET_GGML_GRAPHS_H

#include <ggml-alloc.h>
#include <ggml-backend.h>

#include "et_ggml_cpu.h"
#include "et_matvec.h"

typedef struct {
    const et_ggml_cpu *cpu;
    struct ggml_threadpool *pool;
    ggml_backend_t backend;
    ggml_gallocr_t allocator;
} et_ggml_graphs;

/* Threads for graphs; idle ones sleep, because other stages compute between two steps. Returns ET_OK or ET_E_MEMORY;
 * close in either case, after the plans. */
int et_ggml_graphs_open(et_ggml_graphs *g, const et_ggml_cpu *cpu, int threads);
void et_ggml_graphs_close(et_ggml_graphs *g);

/* Memory for n graphs that run one after the other and therefore share it. Returns ET_OK, ET_E_MEMORY or
 * ET_E_BACKEND. */
int et_ggml_graphs_place(et_ggml_graphs *g, struct ggml_cgraph **graphs, int n);

/* m times the columns of x, plus add (or NULL), as one node. m must outlive the graph. */
struct ggml_tensor *et_matvec_node(struct ggml_context *ctx, et_matvec *m, struct ggml_tensor *x,
                                   struct ggml_tensor *add);

#endif
