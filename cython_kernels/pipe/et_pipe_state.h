/* What lies between the threads: the entries of the rings, and the structure that holds the rings.
 *
 * Private to pipe/; other rooms include et_pipe.h. */
#ifndef ET_PIPE_STATE_H
#define ET_PIPE_STATE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/et_trace.h"
#include "base/et_types.h"
#include "base/et_wait.h"
#include "et_ring.h"

/* --- where a render can go on ------------------------------------------------------------------------ */

/* Between two sentences: what the decoder must know of those before, to go on with the same samples in another
 * generation. All zero at the beginning. */
typedef struct {
    double loudest;        /* frame so far, power */
    int32_t trailing;      /* quiet samples at the end of the last sentence */
    int32_t reserve;       /* samples of a pause that nothing came after yet */
    int32_t sentence;      /* sentences before */
} et_mark;

/* --- generator -> decoder --------------------------------------------------------------------------- */

enum et_item_kind {
    ET_ITEM_FRAME = 1,     /* codes; arg: microseconds of work they took, without waiting; 0: not known */
    ET_ITEM_SEG_BEGIN,     /* decoder state back to the start of a stream; arg: frames to decode and drop */
    ET_ITEM_SEG_END,       /* decode what is pending */
    ET_ITEM_WAIT,          /* nothing comes before somebody writes more text: decode what is pending, and let it be heard */
    ET_ITEM_PAUSE,         /* arg: samples of silence */
    ET_ITEM_END,           /* end of the utterance; reason */
    ET_ITEM_RENDER,        /* first of a generation: it goes to a reader and begins, or goes on, at `mark` */
};

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t reason;
    int32_t arg;
    union {
        int16_t codes[ET_MAX_GROUPS];
        et_mark mark;
    };
} et_item;

/* --- decoder -> playout ----------------------------------------------------------------------------- */

enum et_block_kind {
    ET_BLOCK_PCM = 1,      /* samples: how many belong to this block */
    ET_BLOCK_END,          /* end of the utterance; reason */
    ET_BLOCK_MARK,         /* end of a sentence of a render; mark */
};

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t reason;
    uint32_t samples;
    et_mark mark;
} et_block;

/* --- threads -> loop -------------------------------------------------------------------------------- */

enum et_event_kind {
    ET_EV_FIRST_CHUNK = 1, /* decoder: first PCM of a generation is in the ring; value: ns since its first frame */
    ET_EV_STARTED,         /* playout: first sample was given to the sink; value: samples buffered then */
    ET_EV_FINISHED,        /* playout: the last sample was heard; reason; value: samples heard */
    ET_EV_DROPPED,         /* playout: silent after an abort of `generation`; value: samples heard */
    ET_EV_UNDERRUN,        /* playout: the device or the ring ran dry; value: count for this utterance */
    ET_EV_DEVICE,          /* playout: the sink failed; value: negative errno */
    ET_EV_DECODER,         /* decoder: decode failed; value: et_error */
    ET_EV_SENTENCE,        /* playout: the sink has the whole of a render's sentence; value: samples so far; mark */
};

typedef struct {
    uint32_t generation;
    uint16_t kind;
    uint16_t reason;
    int64_t value;
    int64_t t_ns;          /* CLOCK_MONOTONIC */
    et_mark mark;
} et_event;

/* --- the pipe ---------------------------------------------------------------------------------------- */

typedef struct {
    int groups;               /* codebooks of a frame */
    int samples_per_frame;
    int sample_rate;
    size_t codes_capacity;    /* items; rounded up to a power of two */
    size_t pcm_capacity;      /* samples; rounded up to a power of two */
    int64_t backpressure;     /* samples: the generator waits while queued codes and PCM exceed this;
                                 et_pipe.limit is higher while the start policy needs more */
} et_pipe_config;

typedef struct et_pipe {
    et_pipe_config config;

    _Atomic uint32_t generation;  /* the live one; 0 before the first utterance */
    _Atomic int stop;             /* threads leave */
    _Atomic int paused;           /* playout holds */
    _Atomic int tracing;          /* steps are recorded */

    /* Turns, for stages that share CPUs: one computes while the other waits, because threads of both at once would
     * wait for each other's time slices in the middle of every operator. */
    int turns;                    /* 0: both compute at the same time */
    pthread_mutex_t turn_mutex;
    pthread_cond_t turn_cond;
    bool generating;              /* the generator computes */
    bool decoding;                /* the decoder computes, or waits to; the decoder comes first */
    uint64_t taken;               /* frames that the decoder has taken from items; the decoder alone counts */
    uint64_t looked;              /* of the taken frames, those that were put aside or begun to decode */

    et_ring items, blocks, pcm;
    et_ring decoder_events, playout_events;
    et_ring generator_steps, decoder_steps;  /* et_step; without memory while tracing is off */

    /* eventfds: a thread sleeps on its own one and is woken by its neighbours. */
    int generator_fd, decoder_fd, playout_fd;
    int loop_fd;                  /* events wait */

    _Atomic int64_t wanted;          /* frames that must be in items before the decoder has its next chunk */
    _Atomic int64_t pending_frames;  /* frames in items (live or stale) not yet decoded */
    _Atomic int64_t start_samples;   /* playout starts when this many samples wait, or at ET_BLOCK_END */
    _Atomic int64_t limit;           /* samples: the backpressure in force */
    _Atomic int64_t min_start;       /* the least start_samples, set for each utterance */
    _Atomic int64_t expected_frames; /* estimate for the utterance, 0: unknown */
    _Atomic uint64_t cut;            /* generation that has run away << 32 | how many of its samples are played */
    _Atomic uint64_t hold;           /* generation << 32 | how many of its samples a reader may have so far */
    _Atomic uint32_t held_back;      /* generation of which playout could read more than `hold` lets it */
    _Atomic float gain;              /* volume of the live utterance, applied when PCM enters the ring */

    /* Progress counters, for the watchdog and statistics. */
    _Atomic uint64_t generator_beat, decoder_beat, playout_beat;
    _Atomic uint64_t frames_generated, frames_decoded, samples_out, underruns;
    _Atomic uint64_t steps_lost;  /* records that found their ring full */
} et_pipe;

static inline bool et_pipe_live(const et_pipe *p, uint32_t generation)
{
    return atomic_load_explicit(&p->generation, memory_order_acquire) == generation;
}
static inline bool et_pipe_stopping(const et_pipe *p)
{
    return atomic_load_explicit(&p->stop, memory_order_acquire) != 0;
}
static inline bool et_pipe_tracing(const et_pipe *p)
{
    return atomic_load_explicit(&p->tracing, memory_order_relaxed) != 0;
}
static inline void et_pipe_wake_all(et_pipe *p)
{
    et_wake(p->generator_fd);
    et_wake(p->decoder_fd);
    et_wake(p->playout_fd);
}

#endif
