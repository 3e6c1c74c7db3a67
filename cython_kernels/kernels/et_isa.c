/* See et_isa.h. */
#include "et_isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int level;

static int of_cpu(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")
        || !__builtin_cpu_supports("avx512dq"))
        return ET_ISA_GENERIC;
    return __builtin_cpu_supports("avx512vnni") ? ET_ISA_AVX512_VNNI : ET_ISA_AVX512;
#else
    return ET_ISA_GENERIC;
#endif
}

static void look(void)
{
    const char *wish = getenv("EDGETTSD_ISA");
    if (!wish || !*wish || !strcmp(wish, "auto"))
        level = of_cpu();
    else
        level = strcmp(wish, "generic") ? ET_ISA_UNKNOWN : ET_ISA_GENERIC;
}

int et_isa(void)
{
    pthread_once(&once, look);
    return level;
}
