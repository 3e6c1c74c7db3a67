/* See et_wait.h. */
#include "et_wait.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

int64_t et_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int et_wait(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) <= 0)
        return 0;
    uint64_t count;
    /* An empty read is fine, because another wake-up may have been taken in between. */
    return read(fd, &count, sizeof count) == sizeof count;
}

void et_wake(int fd)
{
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(fd, &one, sizeof one);
    while (n < 0 && errno == EINTR);
}
