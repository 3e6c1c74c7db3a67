/* See et_ggml_graphs.h. */
#include "et_ggml_graphs.h"

#include <string.h>

#include "base/et_types.h"

int et_ggml_graphs_open(et_ggml_graphs *g, const et_ggml_cpu *cpu, int threads)
{
    struct ggml_threadpool_params pool = ggml_threadpool_params_default(threads);
    pool.poll = 0;
    *g = (et_ggml_graphs){
        .cpu = cpu,
        .pool = cpu->threadpool_new(&pool),
        .backend = ggml_backend_dev_init(cpu->device, NULL),
        .allocator = ggml_gallocr_new(ggml_backend_cpu_buffer_type()),
    };
    if (!g->pool || !g->backend || !g->allocator)
        return ET_E_MEMORY;
    cpu->set_n_threads(g->backend, threads);
    cpu->set_threadpool(g->backend, g->pool);
    return ET_OK;
}

void et_ggml_graphs_close(et_ggml_graphs *g)
{
    if (g->backend)
        ggml_backend_free(g->backend);
    if (g->pool)
        g->cpu->threadpool_free(g->pool);
    if (g->allocator)
        ggml_gallocr_free(g->allocator);
    memset(g, 0, sizeof *g);
}

int et_ggml_graphs_place(et_ggml_graphs *g, struct ggml_cgraph **graphs, int n)
{
    /* Grow the block for all of them first: one that grows later would move under the graphs that already have their
     * addresses. */
    for (int i = 0; i < n; i++)
        if (!ggml_gallocr_reserve(g->allocator, graphs[i]))
            return ET_E_MEMORY;
    size_t size = ggml_gallocr_get_buffer_size(g->allocator, 0);
    for (int i = 0; i < n; i++)
        if (!ggml_gallocr_alloc_graph(g->allocator, graphs[i]))
            return ET_E_MEMORY;
    return ggml_gallocr_get_buffer_size(g->allocator, 0) == size ? ET_OK : ET_E_BACKEND;
}

static void run_product(struct ggml_tensor *dst, int ith, int nth, void *product)
{
    const struct ggml_tensor *x = dst->src[0], *add = dst->src[1];
    et_matvec_run(product, x->data, x->nb[1] / sizeof(float), add ? add->data : NULL,
                  add ? add->nb[1] / sizeof(float) : 0, dst->data, dst->nb[1] / sizeof(float), (int)x->ne[1], ith, nth);
}

struct ggml_tensor *et_matvec_node(struct ggml_context *ctx, et_matvec *m, struct ggml_tensor *x,
                                   struct ggml_tensor *add)
{
    struct ggml_tensor *args[] = {x, add};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, m->rows / (m->gated ? 2 : 1), x->ne[1], 1, 1, args, add ? 2 : 1,
                          run_product, GGML_N_TASKS_MAX, m);
}
