/* Five threads on one pipe, as in the daemon: generator, decoder, playout, a writer whose text comes while it is spoken,
 * and a loop that aborts, pauses and ends at random. Every generation must end exactly once, in order. Built with a sanitizer by tests/unit/test_races.py.
 * Arguments: seed, milliseconds, 1 where generator and decoder take turns. Exit status 0: all was well. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "testing/et_fake.h"
#include "testing/et_sink_fake.h"
#include "frame_loop/et_decode.h"
#include "frame_loop/et_generate.h"
#include "pipe/et_pipe.h"
#include "playout/et_playout.h"
#include "playout/et_sink.h"

enum { GROUPS = 4, SPF = 96, HIDDEN = 4, VOCAB = 64, EOS = 60 };

static et_pipe *p;
static et_playout *playout;
static _Atomic uint32_t wanted;      /* generation that the generator shall make */
static _Atomic uint64_t finished, dropped, failed;
static et_rows *_Atomic growing;     /* the writer writes these rows, closes them and takes them away */
static _Atomic uint64_t texts, waits;

static void fail(const char *what)
{
    fprintf(stderr, "pipe_stress: %s\n", what);
    exit(3);
}

static void *write_text(void *arg)
{
    (void)arg;
    static const float rows[3 * HIDDEN];
    uint32_t state = 7;
    while (!atomic_load(&p->stop)) {
        et_rows *r = atomic_load(&growing);
        if (!r) {
            usleep(50);
            continue;
        }
        for (int i = 0; i < 20; i++) {
            et_rows_write(r, rows, 1 + state % 3);
            state = state * 1664525u + 1013904223u;
            if (state >> 30 == 0)
                usleep(state >> 8 & 511);
        }
        et_rows_close(r);
        atomic_fetch_add(&texts, 1);
        atomic_store(&growing, NULL);
    }
    return NULL;
}

static void *generate(void *arg)
{
    (void)arg;
    et_fake_talker t;
    et_fake_predictor c;
    et_table tables[GROUPS];
    static float rows[VOCAB * HIDDEN], zero[HIDDEN];
    if (et_fake_talker_init(&t, HIDDEN, VOCAB, 4096) || et_fake_predictor_init(&c, HIDDEN, GROUPS - 1, VOCAB))
        fail("memory");
    t.eos_id = EOS;
    t.codes = EOS;
    t.eos_after = 40;
    c.fail_at = t.fail_at = -1;
    for (int g = 0; g < GROUPS; g++)
        tables[g] = (et_table){.data = rows, .rows = VOCAB, .dim = HIDDEN};
    et_generator g;
    et_plan plan = {.n = GROUPS};
    for (int k = 0; k < GROUPS; k++)
        plan.steps[k] = (et_plan_step){.kind = ET_PLAN_CODE, .source = k ? ET_PLAN_LOCAL : ET_PLAN_TALKER, .codebook = k,
                                       .sampler = k > 0, .row = k - 1, .vocab = VOCAB, .end = k ? -1 : EOS};
    if (et_generator_init(&g, p, &t.base, &c.base, tables, &plan, NULL))
        fail("generator");
    uint32_t done = 0;
    et_rows *leftover = NULL;
    while (!atomic_load(&p->stop)) {
        uint32_t generation = atomic_load(&wanted);
        if (generation == done) {
            usleep(50);
            continue;
        }
        done = generation;
        /* One in eight runs away into silence (see the decoder's levels), the others end by themselves. */
        t.eos_after = generation % 8 == 0 ? -1 : (int)(generation % 40);
        et_bounds bounds = {.generation = generation, .max_frames = 400, .repeat_frames = 50, .repeat_period = 8};
        int err = 0;
        et_rows *text = generation % 2 ? et_rows_create(p, HIDDEN, 1 + generation % 64, &err) : NULL;
        if (err)
            fail("rows");
        atomic_store(&growing, text);
        et_segment seg = {.bounds = bounds, .prompt = zero, .n_prompt = 1, .pad_row = zero, .rows = text};
        et_result r;
        et_generate(&g, &seg, &r, NULL, 0);
        if (r.text_ns > 100000)
            atomic_fetch_add(&waits, 1);
        /* The writer may still be at it. */
        while (text && atomic_load(&growing) == text && !atomic_load(&p->stop))
            usleep(20);
        leftover = atomic_load(&growing) ? text : (et_rows_destroy(text), NULL);
        if (r.reason == ET_ABORTED)
            continue;
        if (r.reason == ET_ERROR)
            fail("generate");
        et_item pause = {.generation = generation, .kind = ET_ITEM_PAUSE, .arg = 100};
        et_item end = {.generation = generation, .kind = ET_ITEM_END, .reason = (uint16_t)r.reason};
        if (!et_pipe_push_item(p, &pause))
            et_pipe_push_item(p, &end);
    }
    et_generator_free(&g);
    et_fake_talker_free(&t);
    et_fake_predictor_free(&c);
    return leftover;
}

static void *decode(void *arg)
{
    (void)arg;
    static const int sizes[] = {1, 4, 8};
    et_fake_decoder d;
    et_fake_decoder_init(&d, GROUPS, SPF, sizes, 3);
    d.fail_at = -1;
    d.n_levels = 61;
    d.levels = calloc(1, 61);
    d.levels[60] = 14;
    et_schedule schedule = {.kind = ET_SCHEDULE_RAMP, .n = 3, .chunks = {1, 4, 8}};
    et_decode loop;
    if (et_decode_init(&loop, p, &d.base, &schedule, 1.0))
        fail("decoder");
    et_quiet_init(&loop.quiet, 20, 40.0);
    et_decode_loop(&loop);
    et_decode_free(&loop);
    et_fake_decoder_free(&d);
    return NULL;
}

static void *play(void *arg)
{
    (void)arg;
    et_playout_loop(p, playout);
    return NULL;
}

static uint32_t dice(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    uint32_t seed = (uint32_t)atoi(argv[1]);
    int64_t until = et_now_ns() + (int64_t)atoi(argv[2]) * 1000000;
    int err = 0;
    et_pipe_config config = {.groups = GROUPS, .samples_per_frame = SPF, .sample_rate = 24000, .codes_capacity = 16,
                             .pcm_capacity = 8192, .backpressure = 2048};
    et_fake_config sinks[2] = {
        {.rate = 24000, .speed = 50, .buffer = 480, .xrun_at = 5000, .fail_at = -1, .fail_errno = 19,
         .keep_open_ms = -1, .fade_ms = 5},
        {.rate = 24000, .speed = 0, .buffer = 480, .xrun_at = -1, .fail_at = 20000, .fail_errno = 19,
         .fail_times = 3},
    };
    p = et_pipe_create(&config, &err);
    playout = et_playout_new(2, 0);
    if (p)
        p->turns = atoi(argv[3]);
    et_sink *sink[2] = {et_sink_fake_new(&sinks[0], &err), et_sink_fake_new(&sinks[1], &err)};
    if (!p || !playout || !sink[0] || !sink[1])
        return 2;
    pthread_t threads[4];
    pthread_create(&threads[0], NULL, generate, NULL);
    pthread_create(&threads[1], NULL, decode, NULL);
    pthread_create(&threads[2], NULL, play, NULL);
    pthread_create(&threads[3], NULL, write_text, NULL);

    uint64_t begun = 0, ended = 0;
    uint32_t last_end = 0;
    while (et_now_ns() < until) {
        et_playout_set_sink(p, playout, sink[dice(&seed) % 8 == 0]);
        uint32_t g = et_pipe_next_generation(p);
        atomic_store(&p->min_start, 1 + dice(&seed) % 1000);
        atomic_store(&wanted, g);
        begun++;
        int patience = dice(&seed) % 3 ? 200000 : (int)(dice(&seed) % 5000);
        int64_t limit = et_now_ns() + (int64_t)patience * 1000;
        bool over = false;
        while (!over && et_now_ns() < limit) {
            et_event e;
            et_wait(p->loop_fd, 1);
            if (dice(&seed) % 16 == 0)
                et_pipe_set_paused(p, dice(&seed) % 3 == 0);
            while (et_pipe_next_event(p, &e)) {
                bool final = e.kind == ET_EV_FINISHED || e.kind == ET_EV_DROPPED || e.kind == ET_EV_DEVICE;
                if (!final)
                    continue;
                if (e.generation == last_end)
                    fail("a generation ended twice");
                if ((int32_t)(e.generation - last_end) < 0)
                    fail("ends out of order");
                last_end = e.generation;
                ended++;
                atomic_fetch_add(e.kind == ET_EV_FINISHED ? &finished : e.kind == ET_EV_DROPPED ? &dropped : &failed, 1);
                over = e.generation == g;
            }
        }
        et_pipe_set_paused(p, false);
    }
    /* Whatever is still open ends when the next generation becomes live. */
    et_pipe_next_generation(p);
    for (int i = 0; i < 5000 && ended < begun; i++) {
        et_event e;
        et_wait(p->loop_fd, 1);
        while (et_pipe_next_event(p, &e))
            ended += e.kind == ET_EV_FINISHED || e.kind == ET_EV_DROPPED || e.kind == ET_EV_DEVICE;
    }
    if (ended != begun)
        fail("not every generation ended");
    et_pipe_stop(p);
    void *leftover = NULL;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], i ? NULL : &leftover);
    et_rows_destroy(leftover);
    printf("%llu generations: %llu finished, %llu dropped, %llu failed; %llu texts, %llu waits for text\n",
           (unsigned long long)begun, (unsigned long long)finished, (unsigned long long)dropped,
           (unsigned long long)failed, (unsigned long long)texts, (unsigned long long)waits);
    et_sink_destroy(sink[0]);
    et_sink_destroy(sink[1]);
    et_playout_free(playout);
    et_pipe_destroy(p);
    return finished > 0 && dropped > 0 && texts > 0 && waits > 0 ? 0 : 4;
}
