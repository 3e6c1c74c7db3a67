/* The clock of all threads, and how a thread sleeps until a neighbour wakes it. */
#ifndef ET_WAIT_H
#define ET_WAIT_H

#include <stdint.h>

/* A thread that waits for room sleeps for so many ms: then it looks again, and shows by its counter that it lives. */
enum { ET_WAIT_MS = 200 };

/* CLOCK_MONOTONIC. */
int64_t et_now_ns(void);
/* Sleep on an eventfd for at most timeout_ms and reset it. 1 when woken, 0 on timeout. */
int et_wait(int fd, int timeout_ms);
void et_wake(int fd);

#endif
