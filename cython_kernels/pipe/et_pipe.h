/* What lies between the threads: a codes ring (generator -> decoder), a PCM ring with its block list
 * (decoder -> playout), event queues (threads -> asyncio loop) and the live generation number.
 *
 * Each ring has one producer and one consumer. Every entry carries the generation it was made for; a
 * consumer throws away what is not of the live generation, so an abort is one atomic store. */
#ifndef ET_PIPE_H
#define ET_PIPE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/et_trace.h"
#include "base/et_types.h"

/* --- generator -> decoder --------------------------------------------------------------------------- */

enum et_item_kind {
    ET_ITEM_FRAME = 1,     /* codes; arg: microseconds of work they took, without waiting; 0: not known */
    ET_ITEM_SEG_BEGIN,     /* decoder state back to the start of a stream; arg: frames to decode and drop */
    ET_ITEM_SEG_END,       /* decode what is pending */
    ET_ITEM_PAUSE,         /* arg: samples of silence */
    ET_ITEM_END,           /* end of the utterance; reason */
};

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t reason;
    int32_t arg;
    int16_t codes[ET_MAX_GROUPS];
} et_item;

/* --- decoder -> playout ----------------------------------------------------------------------------- */

enum et_block_kind {
    ET_BLOCK_PCM = 1,      /* samples: how many belong to this block */
    ET_BLOCK_END,          /* end of the utterance; reason */
};

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t reason;
    uint32_t samples;
} et_block;

/* --- threads -> loop -------------------------------------------------------------------------------- */

enum et_event_kind {
    ET_EV_FIRST_CHUNK = 1, /* decoder: first PCM of a generation is in the ring */
    ET_EV_STARTED,         /* playout: first sample was given to the sink; value: samples buffered then */
    ET_EV_FINISHED,        /* playout: the last sample was heard; reason; value: samples heard */
    ET_EV_DROPPED,         /* playout: silent after an abort of `generation`; value: samples heard */
    ET_EV_UNDERRUN,        /* playout: the device or the ring ran dry; value: count for this utterance */
    ET_EV_DEVICE,          /* playout: the sink failed; value: negative errno */
    ET_EV_DECODER,         /* decoder: decode failed; value: et_error */
};

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t reason;
    int64_t value;
    int64_t t_ns;          /* CLOCK_MONOTONIC */
} et_event;

/* --- one-producer one-consumer ring of fixed-size entries -------------------------------------------- */

typedef struct {
    unsigned char *data;
    size_t entry;          /* bytes of an entry */
    size_t capacity;       /* entries, a power of two */
    _Alignas(64) _Atomic uint64_t head;  /* entries ever written */
    _Alignas(64) _Atomic uint64_t tail;  /* entries ever read */
} et_ring;

int et_ring_init(et_ring *r, size_t entry, size_t capacity);
void et_ring_free(et_ring *r);
size_t et_ring_used(const et_ring *r);
size_t et_ring_space(const et_ring *r);
/* Copy up to n entries in or out; the number copied. */
size_t et_ring_write(et_ring *r, const void *src, size_t n);
size_t et_ring_read(et_ring *r, void *dst, size_t n);
/* Look at or skip what can be read. peek copies without consuming. */
size_t et_ring_peek(const et_ring *r, void *dst, size_t n);
size_t et_ring_skip(et_ring *r, size_t n);

/* --- the pipe ---------------------------------------------------------------------------------------- */

typedef struct {
    int groups;               /* codebooks of a frame */
    int samples_per_frame;
    int sample_rate;
    size_t codes_capacity;    /* items; rounded up to a power of two */
    size_t pcm_capacity;      /* samples; rounded up to a power of two */
    int64_t backpressure;     /* samples: the generator pauses while queued codes + PCM exceed this;
                                 raised while the start policy needs more */
} et_pipe_config;

typedef struct et_pipe {
    et_pipe_config config;

    _Atomic uint32_t generation;  /* the live one; 0 before the first utterance */
    _Atomic int stop;             /* threads leave */
    _Atomic int paused;           /* playout holds */
    _Atomic int tracing;          /* steps are recorded */

    /* Turns, for stages that share CPUs: one computes, the other waits. Computing at the same time, their threads
     * would wait for each other's time slices in the middle of every operator. */
    int turns;                    /* 0: both compute at the same time */
    pthread_mutex_t turn_mutex;
    pthread_cond_t turn_cond;
    bool generating;              /* the generator computes */
    bool decoding;                /* the decoder computes, or waits to; it comes first */
    uint64_t taken;               /* frames that the decoder has taken from items; it alone counts */
    uint64_t looked;              /* of these, those that it has put aside or begun to decode */

    et_ring items, blocks, pcm;
    et_ring decoder_events, playout_events;
    et_ring generator_steps, decoder_steps;  /* et_step; without memory while tracing is off */

    /* eventfds: a thread sleeps on its own and is woken by its neighbours. */
    int generator_fd, decoder_fd, playout_fd;
    int loop_fd;                  /* events wait */

    _Atomic int64_t wanted;          /* frames that must be in items before the decoder has its next chunk */
    _Atomic int64_t pending_frames;  /* frames in items (live or stale) not yet decoded */
    _Atomic int64_t start_samples;   /* playout starts when this many samples wait, or at ET_BLOCK_END */
    _Atomic int64_t limit;           /* backpressure limit in force, samples */
    _Atomic int64_t min_start;       /* the least start_samples, set by the generator for each utterance */
    _Atomic int64_t expected_frames; /* estimate for the utterance, 0: unknown */
    _Atomic uint64_t cut;            /* generation that has run away << 32 | its samples that are still played */
    _Atomic uint64_t hold;           /* generation << 32 | its samples that a reader may have so far */
    _Atomic uint32_t held_back;      /* generation whose samples playout does not take for that */
    _Atomic float gain;              /* volume of the live utterance, applied when PCM enters the ring */

    /* Progress counters, for the watchdog and statistics. */
    _Atomic uint64_t generator_beat, decoder_beat, playout_beat;
    _Atomic uint64_t frames_generated, frames_decoded, samples_out, underruns;
    _Atomic uint64_t steps_lost;  /* records that found their ring full */
} et_pipe;

/* NULL with *err set (ET_E_ARG, ET_E_MEMORY) on failure. */
et_pipe *et_pipe_create(const et_pipe_config *config, int *err);
void et_pipe_destroy(et_pipe *p);

/* Make a new generation the live one and return it (never 0). Whatever belongs to the old one is dead from
 * this moment; all threads are woken. Called by the loop only. */
uint32_t et_pipe_next_generation(et_pipe *p);
static inline bool et_pipe_live(const et_pipe *p, uint32_t generation)
{
    return atomic_load_explicit(&p->generation, memory_order_acquire) == generation;
}
void et_pipe_stop(et_pipe *p);
static inline bool et_pipe_stopping(const et_pipe *p)
{
    return atomic_load_explicit(&p->stop, memory_order_acquire) != 0;
}
void et_pipe_set_paused(et_pipe *p, bool paused);
void et_pipe_wake_all(et_pipe *p);

int64_t et_now_ns(void);
/* So long, in ms, a thread sleeps that waits for room: then it looks again, and shows that it lives. */
enum { ET_WAIT_MS = 200 };
/* Sleep on an eventfd for at most timeout_ms; resets it. Returns 1 when woken, 0 on timeout. */
int et_wait(int fd, int timeout_ms);
void et_wake(int fd);

/* Generator: append an item; waits while the ring or the backpressure limit is full (only frames count against
 * the limit). Returns ET_OK, ET_E_STALE, ET_E_STOPPED or, for a frame of what has run away, ET_E_RUNAWAY. */
int et_pipe_push_item(et_pipe *p, const et_item *item);

/* Decoder: next item of the live generation (stale ones are thrown away), waiting at most timeout_ms.
 * Returns 1, or 0 when none came, or ET_E_STOPPED. */
int et_pipe_pop_item(et_pipe *p, et_item *item, int timeout_ms);

/* Decoder: convert n float samples in -1..1 to s16 with the gain (rounded to nearest, clipped) and append them
 * as a block; waits while the ring is full. n may exceed the ring: it goes in pieces.
 * pcm NULL appends n samples of silence. Returns ET_OK, ET_E_STALE, ET_E_STOPPED. */
int et_pipe_push_pcm(et_pipe *p, uint32_t generation, const float *pcm, size_t n);
int et_pipe_push_end(et_pipe *p, uint32_t generation, uint16_t reason);

/* Decoder: the generation has run away. Its frames are refused from now on, and of its samples, pauses included,
 * only the first `keep` are played. Its end comes as always, through the items. */
void et_pipe_run_away(et_pipe *p, uint32_t generation, uint32_t keep);
bool et_pipe_ran_away(const et_pipe *p, uint32_t generation);
/* Playout: how many of the generation's samples may be played. */
int64_t et_pipe_keep(const et_pipe *p, uint32_t generation);

/* Decoder: whoever takes samples as fast as they come (a reader, not a device) may have only this many of the
 * generation's samples until told otherwise (INT64_MAX: all), because what follows may be the silence of a runaway. */
void et_pipe_hold(et_pipe *p, uint32_t generation, int64_t samples);
/* Playout: how many that are; for whoever waits for more, the generator is let run ahead of its limit. */
int64_t et_pipe_may_have(const et_pipe *p, uint32_t generation);
void et_pipe_hold_back(et_pipe *p, uint32_t generation);

/* Playout: the block at the front of the live generation without consuming it; stale blocks and their samples
 * are skipped. Returns 1 with *block (samples: those not yet read of it), 0 when there is none. */
int et_pipe_front(et_pipe *p, et_block *block);
/* Playout: read up to n samples of the front block (kind PCM); the number read. The block is consumed with its
 * last sample. */
size_t et_pipe_read(et_pipe *p, int16_t *dst, size_t n);
/* Playout: consume a front block of kind END. */
void et_pipe_consume_end(et_pipe *p);
/* Playout: the newest block, whatever its generation (samples are those it was made with or what is left of it).
 * Returns 1, or 0 when there is none. */
int et_pipe_last(const et_pipe *p, et_block *block);
/* Samples in the PCM ring, stale ones included. */
size_t et_pipe_buffered(const et_pipe *p);

/* Post an event; wakes loop_fd. Of the queue of 256 underruns fill half at most and are dropped beyond; anything else
 * waits for room, in steps of 1 ms, until the reader comes or the pipe is stopped. */
void et_pipe_post(et_pipe *p, et_ring *queue, uint32_t generation, int kind, int reason, int64_t value);
/* Loop: next event of either queue; 1 or 0. */
int et_pipe_next_event(et_pipe *p, et_event *event);

/* Record steps from now on; before the threads start. ET_OK or ET_E_MEMORY. */
int et_pipe_trace(et_pipe *p);
static inline bool et_pipe_tracing(const et_pipe *p)
{
    return atomic_load_explicit(&p->tracing, memory_order_relaxed) != 0;
}
/* Generator and decoder, each with its own ring: keep a record. */
void et_pipe_keep_step(et_pipe *p, et_ring *ring, const et_step *step);

/* --- turns (et_turn.c) -------------------------------------------------------------------------------- */

/* Of et_pipe_create and et_pipe_destroy. */
void et_turn_init(et_pipe *p);
void et_turn_free(et_pipe *p);
/* Generator: around each step. Waits while the decoder computes; nanoseconds waited. */
int64_t et_turn_enter(et_pipe *p);
void et_turn_leave(et_pipe *p);
/* Generator: after pushing a frame. Lets the decoder look at it before the next step begins: a chunk that it completes
 * would else wait for all of that step. Waits for some milliseconds at most, and not at all for a frame that completes
 * none. */
void et_turn_offer(et_pipe *p);
/* Decoder, of et_pipe_pop_item: all that was taken is put aside, or was of no use; more is needed. */
void et_turn_looked(et_pipe *p);
/* Decoder: around each chunk. Waits for the end of the generator's step. */
void et_turn_take(et_pipe *p);
void et_turn_give(et_pipe *p);

#endif
