/* Preloaded: counts allocations by the engine's threads, which are named "tts-...". */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static _Atomic unsigned long total;

static void count(void)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    if (!strncmp(name, "tts-", 4))
        atomic_fetch_add(&total, 1);
}

unsigned long allocations(void)
{
    return atomic_load(&total);
}

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    count();
    return __libc_realloc(old, size);
}
