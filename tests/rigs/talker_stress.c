/* Talkers under random use: rows in any groups, positions taken back, rows that are not finite, contexts of a few
 * positions, two talkers of one file in two threads. Built with sanitizers by tests/unit/test_talker_stress.py.
 * Arguments: seed, where weights are kept, model files. Tells of each for how many contexts it was loaded, for how
 * many by products of our own, and whether the longest one's end gave numbers. Exit status 0: all was well. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talker/et_talker_open.h"

enum { STEPS = 25, MOST = 40, LONGEST = 131072 };

static const int contexts[] = {1, 2, 3, 15, 16, 17, MOST};
static unsigned seed;

static int any(int n)
{
    return rand_r(&seed) % n;
}

static void fail(const char *file, const char *what)
{
    fprintf(stderr, "talker_stress: %s: %s\n", file, what);
    exit(3);
}

/* NULL where the file is refused, for which there must be a reason. */
static et_talker *open_talker(const char *file, const char *kept, int context, int threads, int batch)
{
    char err[512] = "";
    et_talker_config config = {.path = file, .max_context = context, .threads = threads, .threads_batch = batch,
                               .use_mmap = true, .own_products = true, .weight_file = kept};
    et_talker *t = NULL;
    int rc = et_talker_open(&config, &t, err, sizeof err);
    if ((rc == ET_OK) != (t != NULL) || (rc != ET_OK && !err[0]))
        fail(file, "an error without a message, or a talker with one");
    return t;
}

static void fill(float *rows, int n)
{
    for (int i = 0; i < n; i++)
        rows[i] = (float)any(2001) / 500.0f - 2.0f;
}

/* Whether the rows that a talker holds give the same bits when they are fed at once. */
static void compare(const char *file, et_talker *t, et_talker *other, const float *rows)
{
    other->reset(other);
    if (other->feed(other, rows, t->n_past))
        fail(file, "rows fit one talker, not the other");
    if (!t->own_products)
        return;
    if (memcmp(t->hidden_out(t), other->hidden_out(other), (size_t)t->hidden * sizeof(float))
        || memcmp(t->logits(t), other->logits(other), (size_t)t->vocab * sizeof(float)))
        fail(file, "results depend on the groups of rows");
}

static void use(const char *file, et_talker *t, et_talker *other)
{
    float *rows = malloc((size_t)(2 * MOST) * (size_t)t->hidden * sizeof *rows);
    if (!rows)
        fail(file, "memory");
    for (int i = 0; i < STEPS; i++) {
        const int n = 1 + any(9), kind = any(8), past = t->n_past;
        float *at = rows + (size_t)past * (size_t)t->hidden;
        if (kind == 0) {
            t->reset(t);
            t->reset(t);
            continue;
        }
        if (kind == 1 && past) {
            /* libllama cannot where something not finite was computed. */
            if ((t->rewind(t, any(past + 1)) && t->own_products) || !t->rewind(t, past + 1))
                fail(file, "a position that is none was taken back to");
            continue;
        }
        fill(at, n * t->hidden);
        if (kind == 2)
            at[any(n * t->hidden)] = any(2) ? NAN : INFINITY;
        int rc = t->feed(t, at, n);
        if (rc ? t->n_past != past : t->n_past != past + n)
            fail(file, "rows were appended by halves");
        if (n > t->max_context - past ? rc != ET_E_CONTEXT : rc && rc != ET_E_BACKEND)
            fail(file, "not the error that it should be");
        if (rc == ET_OK && kind == 2)
            fail(file, "what is not finite was taken");
        if (rc == ET_OK)
            compare(file, t, other, rows);
    }
    free(rows);
}

/* The last positions of the longest context. False where damaged weights give something not finite there. */
static bool far(const char *file)
{
    et_talker *t = open_talker(file, NULL, LONGEST, 2, 3);
    if (!t)
        fail(file, "loaded for short contexts only");
    float *rows = malloc(7 * (size_t)t->hidden * sizeof *rows);
    if (!rows)
        fail(file, "memory");
    fill(rows, 7 * t->hidden);
    /* Only products of our own take positions of zeros for granted. */
    if (t->own_products)
        t->n_past = LONGEST - 10;
    const int first = t->feed(t, rows, 7), second = t->feed(t, rows, 3);
    const bool finite = first == ET_OK && second == ET_OK;
    if (finite ? t->own_products && t->feed(t, rows, 1) != ET_E_CONTEXT
               : first != ET_E_BACKEND && second != ET_E_BACKEND)
        fail(file, "a context is not used to its end");
    free(rows);
    t->free(t);
    return finite;
}

/* --- exp ----------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#include "kernels/et_exp512.h"

__attribute__((target("avx512f"))) static void check_exp(void)
{
    float x[16] = {NAN, INFINITY, -INFINITY, 0.0f}, y[16];
    _mm512_storeu_ps(y, et_exp512(_mm512_loadu_ps(x)));
    if (!isnan(y[0]) || y[1] != INFINITY || y[2] != 0.0f || y[3] != 1.0f)
        fail("exp", "not what it is of NaN, infinity and zero");
    for (float at = -150.0f; at < 150.0f; at += 0.001f) {
        _mm512_storeu_ps(y, et_exp512(_mm512_set1_ps(at)));
        const double want = exp((double)at);
        const bool whole = want >= FLT_MIN && want <= FLT_MAX;
        if (whole ? fabs(y[7] - want) > 2.4e-7 * want : want > FLT_MAX ? y[7] != INFINITY : fabs(y[7] - want) > 3e-45)
            fail("exp", "not within 2.4e-7");
    }
}
#endif

/* --- two at once --------------------------------------------------------------------------------------- */

typedef struct {
    const char *file, *kept;
} job;

static void *alone(void *arg)
{
    const job *j = arg;
    for (int i = 0; i < 5; i++) {
        et_talker *t = open_talker(j->file, j->kept, MOST, 1, 2);
        if (!t)
            return NULL;
        float *rows = calloc((size_t)MOST * (size_t)t->hidden, sizeof *rows);
        if (!rows || t->feed(t, rows, MOST))
            fail(j->file, "two at once");
        free(rows);
        t->free(t);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    seed = (unsigned)atoi(argv[1]);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        check_exp();
#endif
    for (int i = 3; i < argc; i++) {
        int loaded = 0, own = 0;
        for (size_t j = 0; j < sizeof contexts / sizeof *contexts; j++) {
            et_talker *t = open_talker(argv[i], any(2) ? argv[2] : NULL, contexts[j], 1 + any(4), 1 + any(4));
            if (!t)
                break;
            et_talker *other = open_talker(argv[i], any(2) ? argv[2] : NULL, contexts[j], 1 + any(4), 1 + any(4));
            if (!other)
                fail(argv[i], "loaded once only");
            loaded++;
            own += t->own_products;
            use(argv[i], t, other);
            other->free(other);
            t->free(t);
        }
        const bool finite = loaded && far(argv[i]);
        printf("%s %d %d %d\n", argv[i], loaded, own, finite);
        pthread_t threads[2];
        job both = {argv[i], argv[2]};
        for (int j = 0; loaded && j < 2; j++)
            if (pthread_create(&threads[j], NULL, alone, &both))
                fail(argv[i], "threads");
        for (int j = 0; loaded && j < 2; j++)
            pthread_join(threads[j], NULL);
    }
    return 0;
}
