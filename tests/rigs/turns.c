/* What a generator waits that offers a frame to a decoder on the same CPUs. One thread plays both, so that each case
 * is one order of their steps. Built by tests/unit/test_turns.py. Argument: the case. Prints the shortest wait of some
 * tries, in microseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipe/et_pipe.h"

enum { TRIES = 20 };

static int fail(const char *what)
{
    fprintf(stderr, "turns: %s\n", what);
    exit(3);
}

static void push(et_pipe *p)
{
    et_item item = {.generation = atomic_load(&p->generation), .kind = ET_ITEM_FRAME};
    if (et_pipe_push_item(p, &item))
        fail("the frame was refused");
}

/* The decoder takes what has come: whether there was a frame for it. */
static void pop(et_pipe *p, int wanted)
{
    et_item item;
    if (et_pipe_pop_item(p, &item, 0) != wanted)
        fail("not the items that were expected");
}

static void play(et_pipe *p, const char *name)
{
    if (!strcmp(name, "waiting")) {
        push(p);
    } else if (!strcmp(name, "put aside")) {
        push(p);
        pop(p, 1);
        pop(p, 0);
    } else if (!strcmp(name, "decoded")) {
        push(p);
        pop(p, 1);
        et_turn_take(p);
        et_turn_give(p);
    } else if (!strcmp(name, "aborted")) {
        push(p);
        et_pipe_next_generation(p);
        pop(p, 0);
    } else if (!strcmp(name, "looked before")) {
        pop(p, 0);
        push(p);
    } else if (!strcmp(name, "decoded before")) {
        push(p);
        pop(p, 1);
        et_turn_take(p);
        push(p);
        et_turn_give(p);
    } else if (!strcmp(name, "completes none")) {
        atomic_store(&p->wanted, 2);
        push(p);
    } else {
        fail("no such case");
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int err = 0;
        et_pipe_config config = {.groups = 4, .samples_per_frame = 96, .sample_rate = 24000, .codes_capacity = 16,
                                 .pcm_capacity = 8192, .backpressure = 2048};
        et_pipe *p = et_pipe_create(&config, &err);
        if (!p)
            fail("no pipe");
        p->turns = 1;
        et_pipe_next_generation(p);
        play(p, argv[1]);
        int64_t t0 = et_now_ns();
        et_turn_offer(p);
        int64_t waited = et_now_ns() - t0;
        if (waited < least)
            least = waited;
        et_pipe_destroy(p);
    }
    printf("%lld\n", (long long)(least / 1000));
    return 0;
}
