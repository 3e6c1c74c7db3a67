#define _GNU_SOURCE /* dladdr */
#include "et_ggml_cpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Where ggml's plug-ins are installed, below the folder of libggml itself. */
#define PLUGIN_FOLDER "/ggml"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static et_ggml_cpu cpu;
static char problem[512];

/* Only the folder beside libggml: ggml's own search would also load from the current folder. */
static void load_plugins(char folder[400])
{
    Dl_info info;
    folder[0] = '\0';
    if (!dladdr((void *)ggml_backend_load_all_from_path, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(folder, 400, "%.*s" PLUGIN_FOLDER, slash ? (int)(slash - info.dli_fname) : 1, slash ? info.dli_fname : ".");
    ggml_backend_load_all_from_path(folder);
}

static void *function(ggml_backend_reg_t reg, const char *name)
{
    void *address = ggml_backend_reg_get_proc_address(reg, name);
    if (!address && !problem[0])
        snprintf(problem, sizeof problem, "ggml's CPU device has no %s: this ggml is not the one it was built for", name);
    return address;
}

static void find(void)
{
    char folder[400] = "";
    cpu.device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (!cpu.device) {
        load_plugins(folder);
        cpu.device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    }
    if (!cpu.device) {
        snprintf(problem, sizeof problem, "ggml has no CPU device: no plug-in for this CPU in %s", folder);
        return;
    }
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(cpu.device);
    cpu.threadpool_new = (struct ggml_threadpool *(*)(struct ggml_threadpool_params *))function(reg, "ggml_threadpool_new");
    cpu.threadpool_free = (void (*)(struct ggml_threadpool *))function(reg, "ggml_threadpool_free");
    cpu.set_threadpool = (void (*)(ggml_backend_t, ggml_threadpool_t))function(reg, "ggml_backend_cpu_set_threadpool");
    cpu.set_n_threads = (ggml_backend_set_n_threads_t)function(reg, "ggml_backend_set_n_threads");
    cpu.extra_buffer_types = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(
        reg, "ggml_backend_dev_get_extra_bufts");
}

const et_ggml_cpu *et_ggml_cpu_get(char *err, size_t size)
{
    pthread_once(&once, find);
    if (!problem[0])
        return &cpu;
    snprintf(err, size, "%s", problem);
    return NULL;
}
