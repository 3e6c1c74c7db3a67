/* See et_weight_file.h. */
#define _GNU_SOURCE /* MADV_POPULATE_READ */
#include "et_weight_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { SLICE = 1 << 20 };

/* Whether all of a range is this process's own anonymous memory. */
static bool is_anonymous(uintptr_t first, uintptr_t last)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;
    uintptr_t covered = first;
    while (maps && covered < last && getline(&line, &size, maps) > 0) {
        unsigned long begin, end, inode;
        char access[8];
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &begin, &end, access, &inode) < 4 || end <= covered)
            continue;
        if (begin > covered || inode || strcmp(access, "rw-p"))
            break;
        covered = end;
    }
    if (maps)
        fclose(maps);
    free(line);
    return covered >= last;
}

/* Whether the file begins with these bytes. */
static bool holds(int fd, const uint8_t *bytes, size_t n, uint8_t *slice)
{
    for (size_t done = 0; done < n;) {
        size_t part = n - done < SLICE ? n - done : SLICE;
        ssize_t got = pread(fd, slice, part, (off_t)done);
        if (got <= 0 || memcmp(slice, bytes + done, (size_t)got))
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool put(int fd, const uint8_t *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, bytes + done, n - done < SLICE ? n - done : SLICE, (off_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

/* Created or emptied, and locked, so that nobody takes the file for left over while this process lives: the rule of
 * cython_kernels/_leftovers.py. -1 on failure with errno. */
static int create_locked(const char *name)
{
    for (int tries = 0; tries < 8; tries++) {
        struct stat opened, named;
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
            return -1;
        /* A file system without locks keeps what is left over. */
        bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        if (locked && !fstat(fd, &opened) && !stat(name, &named) && opened.st_ino == named.st_ino &&
            opened.st_dev == named.st_dev)
            return fd;
        close(fd);
    }
    errno = EBUSY;
    return -1;
}

/* A descriptor of a file with these bytes, -1 on failure with errno. */
static int open_file(const char *path, const uint8_t *bytes, size_t n)
{
    uint8_t *slice = malloc(SLICE);
    int fd = slice ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool same = fd >= 0 && holds(fd, bytes, n, slice);
    free(slice);
    if (same)
        return fd;
    if (fd >= 0)
        close(fd);
    /* Threads may write the same file at once: each under a name of its own. */
    static _Atomic unsigned count;
    size_t length = strlen(path) + 48;
    char *other = malloc(length);
    if (!other)
        return -1;
    snprintf(other, length, "%s.%d.%u.tmp", path, (int)getpid(), count++);
    fd = create_locked(other);
    if (fd >= 0 && (!put(fd, bytes, n) || rename(other, path))) {
        int error = errno;
        close(fd);
        unlink(other);
        errno = error;
        fd = -1;
    }
    free(other);
    return fd;
}

/* The whole pages of a block; returns their bytes. */
static size_t whole_pages(void *block, size_t bytes, uintptr_t *first)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t last = ((uintptr_t)block + bytes) / page * page;
    *first = ((uintptr_t)block + page - 1) / page * page;
    return last > *first ? last - *first : 0;
}

size_t et_weight_file_map(const char *path, void *block, size_t bytes, char *err, size_t err_size)
{
    uintptr_t first;
    size_t n = whole_pages(block, bytes, &first);
    err[0] = '\0';
    if (!n || !is_anonymous(first, first + n))
        return 0;
    int fd = open_file(path, (const uint8_t *)first, n);
    if (fd < 0) {
        snprintf(err, err_size, "%s: %s", path, strerror(errno));
        return 0;
    }
    /* Private and writable as the block was; it stays what free() or munmap() gives back. */
    void *mapped = mmap((void *)first, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED)
        snprintf(err, err_size, "%s: %s", path, strerror(errno));
    close(fd);
    if (mapped == MAP_FAILED)
        return 0;
    madvise(mapped, n, MADV_POPULATE_READ);
    return n;
}

void et_weight_file_unmap(void *block, size_t bytes)
{
    uintptr_t first;
    size_t n = whole_pages(block, bytes, &first);
    if (n)
        mmap((void *)first, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
}

void et_empty_pages(void *block, size_t bytes)
{
    uintptr_t first;
    size_t n = whole_pages(block, bytes, &first);
    if (!n || !is_anonymous(first, first + n))
        return;
    madvise((void *)first, n, MADV_NOHUGEPAGE);
    madvise((void *)first, n, MADV_DONTNEED);
}

void et_drop_file_pages(const char *path)
{
    char *real = realpath(path, NULL), *line = NULL;
    FILE *maps = real ? fopen("/proc/self/maps", "re") : NULL;
    size_t size = 0;
    while (maps && getline(&line, &size, maps) > 0) {
        unsigned long begin, end;
        int at = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &begin, &end, &at) == 2 && at > 0 && !strcmp(line + at, real))
            madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    if (maps)
        fclose(maps);
    free(line);
    free(real);
}
