/* The sound device sink; private to et_sink_alsa*.c.
 *
 * Frames are converted into a ring in the device's own format and given to the device from there. The ring keeps
 * what the device has but has not played, so that "go back to the first frame nobody heard" is one assignment:
 *
 *     ... heard ........ sent ........ made        (device frames since the start of the utterance)
 *          | in the device | waits here | */
#ifndef ET_SINK_ALSA_PARTS_H
#define ET_SINK_ALSA_PARTS_H

#include "et_alsa_setup.h"

typedef struct {
    et_sink base;
    et_alsa_config config;
    char *device, *format_name;
    et_alsa_setup setup;
    snd_pcm_t *pcm;
    bool can_drain;       /* snd_pcm_drain does not block */
    et_resample resample;
    float *scratch;
    unsigned char *ring, *zeros;  /* zeros: a period of silence */
    size_t frame_bytes;
    int64_t capacity;     /* frames of the ring */

    int64_t accepted;     /* source frames of this utterance */
    int64_t made, sent, heard;
    bool fresh;           /* the next frame begins an utterance */
    bool unprepared;      /* the device must be prepared before it takes frames */
    bool want_run, running;
    bool finishing, flushed, draining;
    bool held, hard_held; /* paused; the device itself does it */
    bool suspended;
    int64_t fade_end;     /* the device plays a fade up to here and silence after it; -1: it does not */
    int64_t fade_until;   /* ns; then it must have been heard, whatever the device says */
    int64_t rise_from;    /* frames from here on fade in; -1: none do */
} alsa_sink;

/* Device frames of a fade. */
static inline int64_t et_alsa_fade_frames(const alsa_sink *a)
{
    return (int64_t)a->setup.rate * a->base.fade_ms / 1000;
}

/* --- et_sink_alsa_move.c: frames to the device, and where it is ---------------------------------------- */

/* Get over an error of the device: 0 when that is done, ET_SINK_XRUN, or the errno. */
int et_alsa_on_error(alsa_sink *a, int err);
/* Go back to the first frame that was not heard; the device has been stopped. */
void et_alsa_rewind_to_heard(alsa_sink *a);
/* Ask the device where it is. 0, ET_SINK_XRUN or negative errno. */
int et_alsa_locate(alsa_sink *a);
/* Give the device what waits in the ring, as far as it has room. 0, ET_SINK_XRUN or negative errno. */
int et_alsa_pump(alsa_sink *a);
/* Put n converted frames of the scratch buffer into the ring; all earlier ones have been sent. */
void et_alsa_stage(alsa_sink *a, size_t n);

/* --- et_sink_alsa_fade.c ------------------------------------------------------------------------------ */

/* See et_sink_ops. */
int et_alsa_fade(et_sink *s);
int et_alsa_faded(et_sink *s);
/* Stop the device after a fade. The frame that comes next is the one where the fade ended, and it fades in. */
void et_alsa_hold_after_fade(alsa_sink *a);

#endif
