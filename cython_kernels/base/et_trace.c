/* See et_trace.h. /proc/self/task/N/schedstat: time on a CPU, time waiting for one (ns), time slices. */
#include "et_trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t sum(const et_delay *d)
{
    int64_t total = 0;
    for (int i = 0; i < d->n; i++) {
        char text[96];
        ssize_t got = pread(d->fds[i], text, sizeof text - 1, 0);
        if (got <= 0)
            continue;   /* the thread has ended */
        text[got] = '\0';
        const char *second = strchr(text, ' ');
        if (second)
            total += strtoll(second, NULL, 10);
    }
    return total;
}

void et_delay_open(et_delay *d)
{
    et_delay_close(d);
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return;
    for (struct dirent *entry; d->n < (int)(sizeof d->fds / sizeof *d->fds) && (entry = readdir(tasks)) != NULL;) {
        char path[300];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            d->fds[d->n++] = fd;
    }
    closedir(tasks);
    d->last = sum(d);
}

int64_t et_delay_take(et_delay *d)
{
    if (d->n == 0)
        return -1;
    int64_t now = sum(d), since = now - d->last;
    d->last = now;
    /* The account of a thread that has ended is missing from the sum. */
    return since > 0 ? since : 0;
}

void et_delay_close(et_delay *d)
{
    for (int i = 0; i < d->n; i++)
        close(d->fds[i]);
    d->n = 0;
    d->last = 0;
}
