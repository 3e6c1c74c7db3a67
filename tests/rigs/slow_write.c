/* Preloaded: what the kernel does to a writer of deliveries (a thread named "tts-delivery") on its worst day.
 *
 * pipe                 write(2) begins 60 ms late: a second writer can fill the pipe after poll(2) said that there is room
 * file named *.stuck   write(2), and close(2) of any thread, do not come back, whatever signal comes, before a file with
 *                      .go at its end exists: a file system whose server is gone */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void wait_ms(long ms)
{
    struct timespec t = {0, ms * 1000000};
    nanosleep(&t, NULL);
}

static void wait_for_file(int fd)
{
    char link[64], path[4000], go[4100];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 6)
        return;
    path[n] = 0;
    if (strcmp(path + n - 6, ".stuck") != 0)
        return;
    snprintf(go, sizeof go, "%s.go", path);
    while (access(go, F_OK) != 0)
        wait_ms(10);
}

int close(int fd)
{
    static int (*real)(int);
    struct stat st;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "close");
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        wait_for_file(fd);
    return real(fd);
}

ssize_t write(int fd, const void *src, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    char name[16] = "";
    struct stat st;
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "write");
    prctl(PR_GET_NAME, name);
    if (strcmp(name, "tts-delivery") == 0 && fstat(fd, &st) == 0) {
        if (S_ISFIFO(st.st_mode))
            wait_ms(60);
        else if (S_ISREG(st.st_mode))
            wait_for_file(fd);
    }
    return real(fd, src, n);
}
