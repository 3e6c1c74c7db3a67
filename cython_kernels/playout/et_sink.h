/* Where playout sends its samples: a sound device, a descriptor, the clock alone.
 *
 * A sink takes mono s16 frames at `rate` and is used by one thread, the playout thread. No call blocks for
 * longer than the device driver makes it (open and close are the only ones that may; they happen while nothing
 * plays), and none allocates after open.
 *
 * One utterance is: open (no-op when it is open already), write.. (until full), start, write.., finish, drained
 * until 1, or drop at any time. The sink is then stopped and ready for the next utterance, or is closed.
 *
 * A sink loses and repeats nothing over an xrun, a suspend or a pause: what was accepted and not yet heard is
 * kept and sent again. (A device that cannot pause is stopped; the few frames that it plays between the question
 * for its position and the stop are then heard twice, well below a millisecond.) */
#ifndef ET_SINK_H
#define ET_SINK_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/et_limits.h"

/* The device ran dry and stopped. The sink has recovered: write, then start. Never an errno value. */
#define ET_SINK_XRUN (-2001)

#define ET_SINK_MAX_FDS 8

typedef struct et_sink et_sink;

typedef struct {
    const char *name;

    /* 0 or a negative errno (-EBUSY: another program has the device). */
    int (*open)(et_sink *s);

    /* Take up to n frames: how many were taken, 0 when full, ET_SINK_XRUN (nothing taken), negative errno. */
    int (*write)(et_sink *s, const int16_t *pcm, size_t n);

    /* Begin to play what was written; no-op when running. 0, ET_SINK_XRUN or negative errno. */
    int (*start)(et_sink *s);

    /* Descriptors to sleep on: until more can be written or heard (want), or until the other side has gone
     * (!want). Lowers *timeout_ms (-1: none) when the sink must be asked again by then. The number of fds. */
    int (*poll)(et_sink *s, struct pollfd *fds, int max, bool want, int *timeout_ms);

    /* After poll(2): 0, or negative errno when the other side has gone. May be NULL. */
    int (*polled)(et_sink *s, struct pollfd *fds, int n);

    /* Frames accepted but not yet heard. 0, ET_SINK_XRUN or negative errno. */
    int (*delay)(et_sink *s, int64_t *frames);

    /* Hold and go on. 0 or negative errno. */
    int (*pause)(et_sink *s, bool hold);

    /* Fall silent over the next few milliseconds: the sound that is about to be heard fades out, and silence follows.
     * Positive: the fade runs. Nothing may be written until faded says 1; then comes pause, which goes on where the
     * fade ended and fades in, or drop. 0: nothing sounds, or the device does not let written frames be changed.
     * ET_SINK_XRUN or negative errno. Never blocks. May be NULL. */
    int (*fade)(et_sink *s);
    /* After fade: 1 when the fade was heard, or the sink is silent for another reason; 0 not yet. */
    int (*faded)(et_sink *s);

    /* Silence now: throw away what has not been heard. Never blocks. A hard cut unless a fade was heard before. */
    void (*drop)(et_sink *s);

    /* No more frames follow: send what conversion still holds. 0 or negative errno. */
    int (*finish)(et_sink *s);

    /* After finish: 1 when everything was heard (the sink is then stopped), 0 not yet, negative errno. Starts a
     * device that was not started; gets over an xrun by itself. */
    int (*drained)(et_sink *s);

    void (*close)(et_sink *s);
    void (*destroy)(et_sink *s);  /* close and free */
} et_sink_ops;

struct et_sink {
    const et_sink_ops *ops;
    int rate;          /* of the frames that are written, Hz */
    int keep_open_ms;  /* idle time before playout closes it; 0: at once, -1: never */
    int stall_ms;      /* neither written nor heard for this long is an error (-ETIMEDOUT); 0: never */
    int fade_ms;       /* where sound ends in the middle of loud samples it fades for so long; 0: it is cut */
    bool paced;        /* plays in real time; else takes what it can get, and playout never holds back */
    bool is_open;      /* playout thread only */
    const char *failed_step;  /* what open was doing when it failed; a constant, NULL before */
    _Atomic int in_use;    /* playout holds a pointer to it */
    _Atomic uint64_t opens, xruns, suspends;
};

/* Fields and calls of every sink as plain functions, for callers that know no atomics. */
static inline bool et_sink_in_use(const et_sink *s) { return atomic_load(&s->in_use) != 0; }
static inline uint64_t et_sink_opens(const et_sink *s) { return atomic_load(&s->opens); }
static inline uint64_t et_sink_xruns(const et_sink *s) { return atomic_load(&s->xruns); }
static inline uint64_t et_sink_suspends(const et_sink *s) { return atomic_load(&s->suspends); }
static inline const char *et_sink_failed_step(const et_sink *s) { return s->failed_step ? s->failed_step : ""; }
static inline int et_sink_open(et_sink *s) { return s->ops->open(s); }
static inline void et_sink_close(et_sink *s) { s->ops->close(s); }
static inline void et_sink_destroy(et_sink *s) { s->ops->destroy(s); }

/* --- sound device ------------------------------------------------------------------------------------ */

typedef struct {
    const char *device;   /* ALSA PCM name */
    int rate;             /* of the frames that are written */
    int device_rate;      /* 0: the source rate when the device takes it, else the best it has */
    int channels;         /* 0: one, or as few as the device has */
    const char *format;   /* ALSA name such as "S32_LE"; NULL or "": the first of S16, S32, S24, FLOAT it takes */
    int period_ms, buffer_ms;
    int keep_open_ms, stall_ms, fade_ms;
    int drain;            /* end by snd_pcm_drain (1) or by letting it run dry (0); -1: kernel devices drain, for
                             plugins may block in it */
} et_alsa_config;

/* What the device agreed to, for diagnosis. */
typedef struct {
    int rate, channels, period_frames, buffer_frames;
    bool can_pause, converts_rate;
    char format[24];
} et_alsa_info;

/* NULL with *err a negative errno when memory is short or a value is out of range. */
et_sink *et_sink_alsa_new(const et_alsa_config *config, int *err);
/* Of the last open; zeros before. */
void et_sink_alsa_info(const et_sink *s, et_alsa_info *info);

/* --- descriptor -------------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    int rate;
    bool wav;             /* WAV header before the samples, else s16le alone */
    bool close_fd;        /* the descriptor is the sink's: closed with the sink */
    bool keep;            /* several utterances into one stream: close at the end of an utterance leaves it open */
    int stall_ms;
} et_fd_config;

et_sink *et_sink_fd_new(const et_fd_config *config, int *err);
/* Close for good, whatever `keep` says. */
void et_sink_fd_end(et_sink *s);

/* --- no device ---------------------------------------------------------------------------------------- */

/* Plays by the clock at `speed` (0: everything is heard at once), holds `buffer` frames and keeps nothing. */
et_sink *et_sink_clock_new(int rate, double speed, size_t buffer, int *err);

#endif
