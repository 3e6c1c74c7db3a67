/* Preloaded: ends the process at the KILL_AT-th step of writing a file, as a power cut would.
 * Steps are opening a name that ends in .tmp, writing at a position, and renaming. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void step(void)
{
    static _Atomic int steps;
    const char *at = getenv("KILL_AT");
    if (at && ++steps == atoi(at))
        kill(getpid(), SIGKILL);
}

static int is_tmp(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && !strcmp(name + n - 4, ".tmp");
}

#define OPEN(symbol)                                                          \
    int symbol(const char *name, int flags, ...)                              \
    {                                                                         \
        static int (*next)(const char *, int, ...);                           \
        if (!next)                                                            \
            next = dlsym(RTLD_NEXT, #symbol);                                 \
        va_list list;                                                         \
        va_start(list, flags);                                                \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                         \
        int fd = next(name, flags, mode);                                     \
        if (is_tmp(name))                                                     \
            step();                                                           \
        return fd;                                                            \
    }

#define PWRITE(symbol)                                                        \
    ssize_t symbol(int fd, const void *data, size_t n, off_t at)              \
    {                                                                         \
        static ssize_t (*next)(int, const void *, size_t, off_t);             \
        if (!next)                                                            \
            next = dlsym(RTLD_NEXT, #symbol);                                 \
        step();                                                               \
        return next(fd, data, n, at);                                         \
    }

OPEN(open)
OPEN(open64)
PWRITE(pwrite)
PWRITE(pwrite64)

int rename(const char *from, const char *to)
{
    static int (*next)(const char *, const char *);
    if (!next)
        next = dlsym(RTLD_NEXT, "rename");
    step();
    return next(from, to);
}
