/* See et_decode.h. */
#include "et_decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Frames of a runaway's silence that are still played. */
static const int TAIL_FRAMES = 3;

/* Quiet frames in a row that a reader gets at once. It gets more of them only when speech goes on. */
static const int READER_FRAMES = 6;

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int et_decode_init(et_decode *d, et_pipe *pipe, et_decoder *decoder, const et_schedule *schedule, double rate)
{
    memset(d, 0, sizeof *d);
    if (et_schedule_check(schedule) || !(rate > 0.0 && rate <= 1000.0) || decoder->groups != pipe->config.groups ||
        decoder->samples_per_frame != pipe->config.samples_per_frame || decoder->n_sizes < 1 ||
        decoder->n_sizes > ET_MAX_SIZES || decoder->sizes[0] != 1 ||
        decoder->sizes[decoder->n_sizes - 1] > ET_MAX_CHUNK)
        return ET_E_ARG;
    d->pipe = pipe;
    d->decoder = decoder;
    d->schedule = d->steady = *schedule;
    if (schedule->kind == ET_SCHEDULE_ADAPTIVE) {
        d->steady.kind = ET_SCHEDULE_RAMP;
        qsort(d->steady.chunks, (size_t)d->steady.n, sizeof *d->steady.chunks, ascending);
    }
    et_cost_init(&d->meter, decoder->sizes, decoder->n_sizes, rate);
    for (int i = 0; i < decoder->n_sizes; i++)
        if (decoder->warm_ns[i] > 0)
            et_decode_expect(d, decoder->sizes[i], 1e-9 * (double)decoder->warm_ns[i]);
    d->pcm = calloc((size_t)ET_MAX_CHUNK * decoder->samples_per_frame, sizeof *d->pcm);
    return d->pcm ? ET_OK : ET_E_MEMORY;
}

static double frame_ns(const et_decode *d)
{
    return 1e9 * d->pipe->config.samples_per_frame / d->pipe->config.sample_rate;
}

int et_decode_expect(et_decode *d, int size, double seconds)
{
    if (!(seconds > 0.0 && seconds < 1e6))
        return ET_E_ARG;
    return et_cost_expect(&d->meter, size, 1e9 * seconds / frame_ns(d));
}

double et_decode_rate(const et_decode *d)
{
    int largest = 1;
    for (int i = 0; i < d->schedule.n; i++)
        if (d->schedule.chunks[i] > largest)
            largest = d->schedule.chunks[i];
    et_costs costs = d->meter.costs;
    costs.turns = d->pipe->turns;
    return et_cost_rate(&costs, largest);
}

void et_decode_free(et_decode *d)
{
    et_delay_close(&d->delay);
    free(d->pcm);
    d->pcm = NULL;
}

/* Audio that was made and not yet heard, in frames, with `coming` frames that are about to be pushed. Samples that a
 * device or a pipe took ahead of time count until the listener has heard them. */
static double ahead(const et_decode *d, int64_t now, int coming)
{
    const double spf = d->pipe->config.samples_per_frame;
    double made = (double)d->pushed / spf + coming;
    if (!d->start_ns)
        return made;
    double waits = (double)et_pipe_buffered(d->pipe) / spf + coming;
    return fmax(waits, made - (double)(now - d->start_ns) / frame_ns(d));
}

/* Frames that the generator is ahead. */
static int queued_frames(const et_decode *d)
{
    return (int)atomic_load_explicit(&d->pipe->pending_frames, memory_order_relaxed);
}

static const et_schedule *schedule_of(const et_decode *d)
{
    return d->render ? &d->steady : &d->schedule;
}

/* Tell playout how many samples must wait before it starts, and the generator how far it may run ahead for that.
 * coming: frames of the chunk that is about to be pushed; 0: there is none, but time has passed and less is missing. */
static void update_start(et_decode *d, int64_t now, int coming)
{
    et_pipe *p = d->pipe;
    if (!et_pipe_live(p, d->generation))
        return;
    const int spf = p->config.samples_per_frame;
    /* With so much in store each stage soon has the machine for itself. */
    if ((int64_t)et_pipe_buffered(p) > p->config.backpressure / 2)
        d->meter.settled = true;
    const et_costs costs = et_cost_expected(&d->meter, p->turns);
    /* Once sound plays, the plan is for starting again after it ran dry, when the device holds nothing. */
    double waits = d->start_ns ? (double)et_pipe_buffered(p) / spf + coming : ahead(d, now, coming);
    const et_standing at = {.index = d->chunk_index, .pending = d->pending, .queued = queued_frames(d),
                            .drop = d->drop, .ahead = waits};
    const et_start_bounds bounds = {
        .samples_per_frame = spf,
        .least = atomic_load_explicit(&p->min_start, memory_order_relaxed),
        .expected = atomic_load_explicit(&p->expected_frames, memory_order_relaxed),
        .capacity = (int64_t)p->pcm.capacity,
        .backpressure = p->config.backpressure,
    };
    const et_start start = et_start_plan(schedule_of(d), &costs, &at, &bounds, d->frames_out);
    atomic_store_explicit(&p->start_samples, start.samples, memory_order_release);
    if (!d->start_ns && (double)start.samples <= waits * spf) {
        d->start_ns = now;
        if (!coming)
            et_wake(p->playout_fd);
    }
    if (start.limit > atomic_exchange_explicit(&p->limit, start.limit, memory_order_acq_rel))
        et_wake(p->generator_fd);
}

/* Nothing more comes for now: what there is may be heard, however little it is. */
static void start_now(et_decode *d)
{
    et_pipe *p = d->pipe;
    if (!et_pipe_live(p, d->generation))
        return;
    atomic_store_explicit(&p->start_samples, 1, memory_order_release);
    if (!d->start_ns && d->pushed)
        d->start_ns = et_now_ns();
    et_wake(p->playout_fd);
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

/* Samples of a block by which a model's own silence is measured: 5 ms. */
static size_t block(const et_decode *d)
{
    return (size_t)d->pipe->config.sample_rate / 200;
}

static int silence(et_decode *d, int64_t n)
{
    return n > 0 ? push(d, NULL, (size_t)n) : ET_OK;
}

/* Push what is left of the pause. pcm: the first frame of the next sentence; NULL: no sentence follows. */
static int end_pause(et_decode *d, const float *pcm)
{
    const size_t spf = (size_t)d->decoder->samples_per_frame;
    return silence(d, et_pause_end(&d->pause, pcm ? (int64_t)et_quiet_end(&d->quiet, pcm, spf, block(d), 1) : 0));
}

/* Look for near-silence in n frames; how many of their samples are to be played. */
static size_t hear(et_decode *d, const float *pcm, int n)
{
    const int spf = d->decoder->samples_per_frame;
    for (int i = 0; i < n; i++) {
        int over = et_quiet_frame(&d->quiet, pcm + (size_t)i * spf, (size_t)spf);
        /* A frame that is quiet as a whole makes the silence before it longer. */
        d->pause.trailing = d->quiet.quiet > 0
                          ? d->pause.trailing + spf
                          : (int64_t)et_quiet_end(&d->quiet, pcm + (size_t)i * spf, (size_t)spf, block(d), 0);
        if (!over)
            continue;
        /* Of a render as much is kept as its reader may have had already, whether he has or not. */
        int tail = d->render ? READER_FRAMES : TAIL_FRAMES;
        int64_t wanted = d->pushed + (int64_t)(i + 1 - d->quiet.quiet + tail) * spf;
        if (d->render && d->let_through)
            wanted = d->pushed;
        int64_t left = wanted > d->pushed ? wanted - d->pushed : 0;
        d->ran_away = 1;
        d->pending = 0;
        et_pipe_run_away(d->pipe, d->generation, (uint32_t)wanted);
        et_pipe_hold(d->pipe, d->generation, INT64_MAX);
        return left < (int64_t)n * spf ? (size_t)left : (size_t)n * spf;
    }
    /* A silence longer than half of the ring goes on to the reader, because held back it would fill the ring. */
    int64_t quiet = d->quiet.limit > 0 ? d->quiet.quiet : 0, room = (int64_t)d->pipe->pcm.capacity / 2;
    bool doubtful = quiet > READER_FRAMES && quiet * spf < room;
    d->let_through = quiet > READER_FRAMES && !doubtful;
    et_pipe_hold(d->pipe, d->generation, doubtful ? d->pushed + (n - quiet + READER_FRAMES) * spf : INT64_MAX);
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
    et_cost_chunk(&d->meter, n, d->pending, (double)(t1 - t0) / frame_ns(d));
    update_start(d, t1, n - skip);
    if (skip == n) {
        keep(d, n, t0, t1);
        return ET_OK;
    }
    const float *pcm = d->pcm + (size_t)skip * spf;
    err = d->pause.reserve > 0 ? end_pause(d, pcm) : ET_OK;
    if (!err)
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
        et_costs costs = et_cost_expected(&d->meter, d->pipe->turns);
        et_standing at = {.index = d->chunk_index, .pending = d->pending, .queued = queued_frames(d),
                          .ahead = ahead(d, et_now_ns(), 0)};
        int want = et_schedule_next(schedule_of(d), &costs, &at);
        atomic_store_explicit(&d->pipe->wanted, want - d->pending, memory_order_relaxed);
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
    atomic_store_explicit(&d->pipe->wanted, 0, memory_order_relaxed);
    d->generation = generation;
    d->failed = 0;
    d->ran_away = 0;
    d->chunk_index = 0;
    d->pending = 0;
    d->drop = 0;
    d->first_ns = 0;
    d->frames_in = 0;
    d->frames_out = 0;
    d->start_ns = 0;
    et_cost_begin(&d->meter);
    d->samples_made = 0;
    d->pushed = 0;
    d->pause.trailing = 0;
    d->pause.reserve = 0;
    d->render = d->let_through = false;
    d->sentence = 0;
    if (et_pipe_tracing(d->pipe))
        et_delay_open(&d->delay);
    et_quiet_begin_utterance(&d->quiet);
}

static void begin_render(et_decode *d, const et_mark *at)
{
    d->render = true;
    d->sentence = at->sentence;
    d->quiet.loudest = at->loudest;
    d->pause.trailing = at->trailing;
    d->pause.reserve = at->reserve;
}

/* A render can go on from here in another generation. */
static int mark(et_decode *d)
{
    const et_mark here = {.loudest = d->quiet.loudest, .trailing = (int32_t)d->pause.trailing,
                          .reserve = (int32_t)d->pause.reserve, .sentence = ++d->sentence};
    return et_pipe_push_mark(d->pipe, d->generation, &here);
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
        et_cost_frame(&d->meter, 1e3 * item->arg / frame_ns(d));
        if ((err = decode_pending(d, 0)))
            return err;
        if (!d->start_ns && d->pushed)
            update_start(d, et_now_ns(), 0);
        return ET_OK;
    case ET_ITEM_SEG_BEGIN:
        if ((err = decode_pending(d, 1)))
            return err;
        et_quiet_begin_segment(&d->quiet);
        d->pause.trailing = 0;
        d->let_through = false;
        if (d->render)
            d->chunk_index = d->sentence ? d->steady.n : 0;
        d->drop = item->arg;
        return d->decoder->reset(d->decoder);
    case ET_ITEM_SEG_END:
        if ((err = decode_pending(d, 1)))
            return err;
        /* The segment has found its end: none of its silence is doubtful any more. */
        et_pipe_hold(d->pipe, d->generation, INT64_MAX);
        return d->render && !d->ran_away ? mark(d) : ET_OK;
    case ET_ITEM_RENDER:
        begin_render(d, &item->mark);
        return ET_OK;
    case ET_ITEM_WAIT:
        /* Chunks of a render do not follow from when its text came. */
        if (d->render)
            return ET_OK;
        if ((err = decode_pending(d, 1)))
            return err;
        start_now(d);
        return ET_OK;
    case ET_ITEM_PAUSE:
        if ((err = decode_pending(d, 1)))
            return err;
        if (d->pause.reserve > 0 && (err = end_pause(d, NULL)))
            return err;
        return silence(d, item->arg > 0 ? et_pause_begin(&d->pause, item->arg, d->decoder->samples_per_frame) : 0);
    case ET_ITEM_END:
        if ((err = decode_pending(d, 1)))
            return err;
        et_pipe_hold(d->pipe, d->generation, INT64_MAX);
        if (d->pause.reserve > 0 && (err = end_pause(d, NULL)))
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
