/* See et_decode.h. */
#include "et_decode.h"

#include <stdlib.h>
#include <string.h>

/* After so many frames of an utterance its own rate counts alone. */
static const double RATE_FRAMES = 12;

/* Of the silence that a runaway ends in so much is still played. */
static const int TAIL_FRAMES = 3;

int et_decode_init(et_decode *d, et_pipe *pipe, et_decoder *decoder, const et_schedule *schedule, double rate)
{
    memset(d, 0, sizeof *d);
    if (et_schedule_check(schedule) || !(rate > 0.0 && rate <= 1000.0) || decoder->groups != pipe->config.groups ||
        decoder->samples_per_frame != pipe->config.samples_per_frame || decoder->n_sizes < 1 ||
        decoder->sizes[0] != 1 || decoder->sizes[decoder->n_sizes - 1] > ET_MAX_CHUNK)
        return ET_E_ARG;
    d->pipe = pipe;
    d->decoder = decoder;
    d->schedule = *schedule;
    d->rate = d->prior = rate;
    d->pcm = calloc((size_t)ET_MAX_CHUNK * decoder->samples_per_frame, sizeof *d->pcm);
    return d->pcm ? ET_OK : ET_E_MEMORY;
}

void et_decode_free(et_decode *d)
{
    et_delay_close(&d->delay);
    free(d->pcm);
    d->pcm = NULL;
}

/* Frames that lie before the listener or wait for him. */
static double buffered_frames(const et_decode *d)
{
    return (double)et_pipe_buffered(d->pipe) / d->pipe->config.samples_per_frame;
}

/* Tell playout from when on it will not run dry, and the generator how far it may run ahead for that. */
static void update_start(et_decode *d, int64_t now)
{
    et_pipe *p = d->pipe;
    if (!et_pipe_live(p, d->generation))
        return;
    const int spf = p->config.samples_per_frame;
    const double frame_ns = 1e9 * spf / p->config.sample_rate;
    if ((int64_t)et_pipe_buffered(p) > p->config.backpressure / 2)
        d->settled = 1;
    /* The first frame's own cost is in the prefill, so a rate needs two frames. */
    if (!d->settled && d->frames_in >= 3) {
        double measured = (double)(now - d->first_ns) / (double)(d->frames_in - 1) / frame_ns;
        double weight = (double)(d->frames_in - 1) / RATE_FRAMES;
        d->rate = d->prior + (weight < 1.0 ? weight : 1.0) * (measured - d->prior);
    }
    double min_frames = (double)atomic_load_explicit(&p->min_start, memory_order_relaxed) / spf;
    double expected = (double)atomic_load_explicit(&p->expected_frames, memory_order_relaxed);
    double remaining = expected > d->frames_out ? expected - (double)d->frames_out : 0.0;
    double need = et_start_frames(&d->schedule, d->chunk_index, remaining, d->rate, min_frames) * spf;
    /* Never ask for more than the ring can hold beside one chunk: that would wait for ever. */
    double most = (double)p->pcm.capacity - 2.0 * ET_MAX_CHUNK * spf;
    if (most < spf)
        most = spf;
    if (need > most)
        need = most;
    atomic_store_explicit(&p->start_samples, (int64_t)need, memory_order_release);
    int64_t limit = (int64_t)need + ET_MAX_CHUNK * spf;
    if (limit < p->config.backpressure)
        limit = p->config.backpressure;
    if (limit > atomic_exchange_explicit(&p->limit, limit, memory_order_acq_rel))
        et_wake(p->generator_fd);
}

static void fail(et_decode *d, int err)
{
    d->failed = 1;
    d->pending = 0;
    et_pipe_post(d->pipe, &d->pipe->decoder_events, d->generation, ET_EV_DECODER, ET_ERROR, err);
}

/* Samples to playout; pcm NULL: silence. */
static int push(et_decode *d, const float *pcm, size_t n)
{
    int err = et_pipe_push_pcm(d->pipe, d->generation, pcm, n);
    if (!err)
        d->pushed += (int64_t)n;
    return err;
}

/* Look for near-silence in n frames; how many of their samples are to be played. */
static size_t hear(et_decode *d, const float *pcm, int n)
{
    const int spf = d->decoder->samples_per_frame;
    for (int i = 0; i < n; i++) {
        if (!et_quiet_frame(&d->quiet, pcm + (size_t)i * spf, (size_t)spf))
            continue;
        int64_t wanted = d->pushed + (int64_t)(i + 1 - d->quiet.quiet + TAIL_FRAMES) * spf;
        int64_t left = wanted > d->pushed ? wanted - d->pushed : 0;
        d->ran_away = 1;
        d->pending = 0;
        et_pipe_run_away(d->pipe, d->generation, (uint32_t)wanted);
        return left < (int64_t)n * spf ? (size_t)left : (size_t)n * spf;
    }
    return (size_t)n * spf;
}

static void keep(et_decode *d, int n, int64_t t0, int64_t t1)
{
    if (!et_pipe_tracing(d->pipe))
        return;
    et_step step = {.generation = d->generation, .kind = ET_STEP_DECODE, .n = (uint16_t)n, .t_ns = t0,
                    .wall_ns = et_now_ns() - t0, .delay_ns = et_delay_take(&d->delay)};
    step.part_ns[ET_STEP_DECODER] = t1 - t0;
    step.part_ns[ET_STEP_PUSH] = step.wall_ns - (t1 - t0);
    et_pipe_keep_step(d->pipe, &d->pipe->decoder_steps, &step);
}

/* Decode the first n pending frames, n being one of the decoder's sizes. */
static int decode(et_decode *d, int n)
{
    const int groups = d->decoder->groups, spf = d->decoder->samples_per_frame;
    if (et_pipe_tracing(d->pipe))
        et_delay_take(&d->delay);
    et_turn_take(d->pipe);
    int64_t t0 = et_now_ns();
    int err = d->decoder->decode(d->decoder, d->codes, n, d->pcm);
    int64_t t1 = et_now_ns();
    et_turn_give(d->pipe);
    if (err)
        return err;
    atomic_fetch_add_explicit(&d->decode_ns, t1 - t0, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->chunks, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&d->pipe->frames_decoded, (uint64_t)n, memory_order_relaxed);
    d->pending -= n;
    d->frames_out += n;
    memmove(d->codes, d->codes + (size_t)n * groups, (size_t)d->pending * groups * sizeof *d->codes);
    int skip = d->drop < n ? d->drop : n;
    d->drop -= skip;
    update_start(d, t1);
    if (skip == n) {
        keep(d, n, t0, t1);
        return ET_OK;
    }
    const float *pcm = d->pcm + (size_t)skip * spf;
    err = push(d, pcm, hear(d, pcm, n - skip));
    if (!err && d->samples_made == 0)
        et_pipe_post(d->pipe, &d->pipe->decoder_events, d->generation, ET_EV_FIRST_CHUNK, 0, t1 - d->first_ns);
    if (!err)
        d->samples_made += (int64_t)(n - skip) * spf;
    keep(d, n, t0, t1);
    return err;
}

/* Decode whole chunks while there are enough frames; with flush also what is left, in the largest sizes. */
static int decode_pending(et_decode *d, int flush)
{
    while (d->pending > 0 && !d->ran_away) {
        int want = et_schedule_next(&d->schedule, d->chunk_index, buffered_frames(d), d->rate);
        if (d->pending < want && !flush)
            return ET_OK;
        if (d->pending >= want)
            d->chunk_index++;
        else
            want = d->pending;
        /* A chunk that is not one of the decoder's sizes goes in parts. */
        while (want > 0 && !d->ran_away) {
            int n = et_fit_size(d->decoder->sizes, d->decoder->n_sizes, want);
            int err = decode(d, n);
            if (err)
                return err;
            want -= n;
        }
    }
    return ET_OK;
}

static void begin_generation(et_decode *d, uint32_t generation)
{
    d->generation = generation;
    d->failed = 0;
    d->ran_away = 0;
    d->chunk_index = 0;
    d->pending = 0;
    d->drop = 0;
    d->first_ns = 0;
    d->frames_in = 0;
    d->frames_out = 0;
    d->prior = d->rate;
    d->settled = 0;
    d->samples_made = 0;
    d->pushed = 0;
    if (et_pipe_tracing(d->pipe))
        et_delay_open(&d->delay);
    et_quiet_begin_utterance(&d->quiet);
}

static int handle(et_decode *d, const et_item *item)
{
    int err = ET_OK;
    if (d->ran_away)
        return item->kind == ET_ITEM_END ? et_pipe_push_end(d->pipe, d->generation, ET_RUNAWAY) : ET_OK;
    switch (item->kind) {
    case ET_ITEM_FRAME:
        if (d->frames_in++ == 0)
            d->first_ns = et_now_ns();
        for (int i = 0; i < d->decoder->groups; i++)
            d->codes[d->pending * d->decoder->groups + i] = item->codes[i];
        d->pending++;
        return decode_pending(d, 0);
    case ET_ITEM_SEG_BEGIN:
        if ((err = decode_pending(d, 1)))
            return err;
        et_quiet_begin_segment(&d->quiet);
        d->drop = item->arg;
        return d->decoder->reset(d->decoder);
    case ET_ITEM_SEG_END:
        return decode_pending(d, 1);
    case ET_ITEM_PAUSE:
        if ((err = decode_pending(d, 1)))
            return err;
        return item->arg > 0 ? push(d, NULL, (size_t)item->arg) : ET_OK;
    case ET_ITEM_END:
        if ((err = decode_pending(d, 1)))
            return err;
        return et_pipe_push_end(d->pipe, d->generation, d->ran_away ? ET_RUNAWAY : item->reason);
    default:
        return ET_E_ARG;
    }
}

void et_decode_loop(et_decode *d)
{
    et_item item;
    for (;;) {
        atomic_fetch_add_explicit(&d->pipe->decoder_beat, 1, memory_order_relaxed);
        int got = et_pipe_pop_item(d->pipe, &item, 500);
        if (got == ET_E_STOPPED)
            return;
        if (got == 0)
            continue;
        if (item.generation != d->generation)
            begin_generation(d, item.generation);
        if (d->failed)
            continue;
        int err = handle(d, &item);
        if (err == ET_E_STOPPED)
            return;
        if (err && err != ET_E_STALE)
            fail(d, err);
    }
}
