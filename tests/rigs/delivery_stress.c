/* Several deliveries at once, as in the daemon: a playout thread that appends, writers, the store's thread, readers that
 * are fast, slow or leave, and a loop that cancels, kicks and looks at random. What arrives must be the beginning of what
 * was appended, and all of it when the delivery ends well. Built with a sanitizer by tests/unit/test_races.py.
 * Arguments: seed, milliseconds, folder of the overflow file. Exit status 0: all was well. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/et_wait.h"
#include "delivery/et_delivery.h"

enum { AT_ONCE = 4, PIECE = 512, LONGEST = 300000 };

static void fail(const char *what)
{
    fprintf(stderr, "delivery_stress: %s\n", what);
    exit(3);
}

static uint32_t dice(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

typedef struct {
    et_delivery *d;
    int reader;
    uint32_t seed;
    uint32_t frames;
    uint64_t got;
    bool wrong, left;
} job;

static int16_t sample(uint32_t seed, uint64_t i)
{
    return (int16_t)((i * 2654435761u + seed) >> 7);
}

static void *append(void *arg)
{
    job *j = arg;
    et_sink *s = et_delivery_sink(j->d);
    int16_t piece[PIECE];
    uint64_t at = 0;
    bool back = j->seed % 2;
    s->ops->open(s);
    while (at < j->frames) {
        int n = (int)(j->frames - at < PIECE ? j->frames - at : PIECE);
        for (int i = 0; i < n; i++)
            piece[i] = sample(j->seed, at + (uint64_t)i);
        int got = s->ops->write(s, piece, (size_t)n);
        at += (uint64_t)got;
        if (got == 0) {
            struct pollfd fds[1];
            int timeout = 1000;
            int count = s->ops->poll(s, fds, 1, true, &timeout);
            poll(fds, (nfds_t)count, timeout);
            s->ops->polled(s, fds, count);
        }
        if (back && at > j->frames / 2 && at > 100) {
            /* Set back by a hundred frames, which the spool has. */
            back = false;
            s->ops->drop(s);
            et_delivery_skip(j->d, 100);
            at -= 100;
        }
    }
    s->ops->finish(s);
    return NULL;
}

static void *take(void *arg)
{
    job *j = arg;
    uint32_t seed = j->seed;
    unsigned char piece[8192];
    uint32_t style = j->seed % 4;
    /* Longer than the store's thread waits for a writer that stands still. */
    if (style == 1)
        usleep(150000);
    for (;;) {
        ssize_t n = read(j->reader, piece, style == 0 ? 1 + dice(&seed) % sizeof piece : sizeof piece);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++) {
            uint64_t at = j->got + (uint64_t)i;
            uint16_t v = (uint16_t)sample(j->seed, at / 2);
            j->wrong |= piece[i] != (unsigned char)(at % 2 ? v >> 8 : v);
        }
        j->got += (uint64_t)n;
        if (style < 2)
            usleep(dice(&seed) % 400);
        if (style == 3 && j->got > 100000) {
            j->left = true;
            break;
        }
    }
    close(j->reader);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    uint32_t seed = (uint32_t)atoi(argv[1]);
    int64_t until = et_now_ns() + (int64_t)atoi(argv[2]) * 1000000;
    int err = 0;
    uint64_t whole = 0, cancelled = 0, left = 0, spilled = 0;
    signal(SIGPIPE, SIG_IGN);
    et_store *store = et_store_new(argv[3], 1 << 20, &err);
    if (!store)
        fail("store");
    while (et_now_ns() < until) {
        job jobs[AT_ONCE];
        pthread_t threads[2 * AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            int fds[2];
            if (pipe(fds))
                fail("pipe");
            et_delivery_config config = {.fd = fds[1], .rate = 24000, .memory = 65536};
            jobs[i] = (job){.reader = fds[0], .seed = dice(&seed), .frames = dice(&seed) % LONGEST};
            jobs[i].d = et_delivery_new(store, &config, &err);
            if (!jobs[i].d)
                fail("delivery");
            pthread_create(&threads[2 * i], NULL, append, &jobs[i]);
            pthread_create(&threads[2 * i + 1], NULL, take, &jobs[i]);
        }
        int victim = dice(&seed) % 3 ? -1 : (int)(dice(&seed) % AT_ONCE);
        for (bool all = false; !all;) {
            all = true;
            uint64_t used = et_store_used(store);
            spilled = used > spilled ? used : spilled;
            for (int i = 0; i < AT_ONCE; i++) {
                et_delivery *d = jobs[i].d;
                all &= et_delivery_over(d);
                (void)(et_delivery_stuck_since(d) + et_delivery_full_since(d) + (int64_t)et_delivery_room(d));
                if (dice(&seed) % 50 == 0)
                    et_delivery_kick(d);
                if (i == victim && et_delivery_bytes(d) > 50000) {
                    et_delivery_cancel(d);
                    victim = -1;
                }
            }
            usleep(dice(&seed) % 300);
        }
        for (int i = 0; i < 2 * AT_ONCE; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < AT_ONCE; i++) {
            job *j = &jobs[i];
            int error = et_delivery_error(j->d);
            if (j->wrong)
                fail("a sample is lost, doubled or foreign");
            if (error == 0 && !j->left && j->got != 2 * (uint64_t)j->frames)
                fail("not whole");
            if (error && error != -ECANCELED && !(error == -EPIPE && j->left))
                fail("an error for no reason");
            whole += error == 0;
            cancelled += error == -ECANCELED;
            left += error == -EPIPE;
            et_sink *s = et_delivery_sink(j->d);
            s->ops->destroy(s);
        }
        if (et_store_used(store))
            fail("a slot is lost");
    }
    et_store_release(store);
    usleep(100000);
    printf("%llu whole, %llu cancelled, %llu left, %llu bytes in the file at most\n", (unsigned long long)whole,
           (unsigned long long)cancelled, (unsigned long long)left, (unsigned long long)spilled);
    return whole && cancelled && left && spilled ? 0 : 4;
}
