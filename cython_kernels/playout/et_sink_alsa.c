/* Sound device sink: what playout calls. See et_sink_alsa_parts.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "et_sink_alsa_parts.h"

enum { RESUME_MS = 50, DRAIN_MS = 20 };

static alsa_sink *self(et_sink *s)
{
    return (alsa_sink *)s;
}

static void begin(alsa_sink *a)
{
    a->accepted = a->made = a->sent = a->heard = 0;
    a->want_run = a->running = a->finishing = a->flushed = a->draining = false;
    a->held = a->hard_held = a->suspended = false;
    a->fade_end = a->rise_from = -1;
    a->fresh = true;
}

/* --- open and close ---------------------------------------------------------------------------------- */

static void alsa_close(et_sink *s)
{
    alsa_sink *a = self(s);
    if (a->pcm) {
        /* Close would wait until everything is played. */
        snd_pcm_drop(a->pcm);
        snd_pcm_close(a->pcm);
    }
    a->pcm = NULL;
    et_resample_free(&a->resample);
    free(a->scratch);
    free(a->ring);
    free(a->zeros);
    a->scratch = NULL;
    a->ring = a->zeros = NULL;
    begin(a);
    s->is_open = false;
}

static int alsa_open(et_sink *s)
{
    alsa_sink *a = self(s);
    if (s->is_open)
        return 0;
    s->failed_step = "open";
    int err = snd_pcm_open(&a->pcm, a->device, SND_PCM_STREAM_PLAYBACK, SND_PCM_NONBLOCK);
    if (err < 0) {
        a->pcm = NULL;
        /* A full mixer answers EAGAIN to a non-blocking open. */
        return err == -EAGAIN ? -EBUSY : err;
    }
    a->can_drain = a->config.drain < 0 ? snd_pcm_type(a->pcm) == SND_PCM_TYPE_HW : a->config.drain != 0;
    err = et_alsa_configure(a->pcm, &a->config, &a->setup, &s->failed_step);
    if (err >= 0) {
        s->failed_step = "memory";
        size_t chunk = (size_t)s->rate / 50;
        a->frame_bytes = et_sample_bytes(a->setup.format) * (size_t)a->setup.channels;
        err = et_resample_init(&a->resample, s->rate, a->setup.rate, chunk);
        if (err == 0) {
            a->capacity = 2 * (int64_t)(a->setup.buffer + a->resample.max_out);
            a->scratch = malloc(a->resample.max_out * sizeof *a->scratch);
            a->ring = calloc((size_t)a->capacity, a->frame_bytes);
            a->zeros = calloc(a->setup.period, a->frame_bytes);
            if (!a->scratch || !a->ring || !a->zeros)
                err = -ENOMEM;
        }
    }
    if (err < 0) {
        alsa_close(s);
        return err;
    }
    begin(a);
    a->unprepared = false;
    s->is_open = true;
    s->failed_step = NULL;
    atomic_fetch_add(&s->opens, 1);
    return 0;
}

static int alsa_write(et_sink *s, const int16_t *pcm, size_t n)
{
    alsa_sink *a = self(s);
    int err;
    if (a->fresh) {
        if ((err = et_resample_reset(&a->resample)) < 0)
            return err;
        a->fresh = false;
    }
    if ((err = et_alsa_pump(a)) < 0)
        return err;
    if (a->held || a->suspended)
        return 0;
    if (a->sent < a->made)
        /* Full. Knowing the position every period is what a suspend can be recovered by. */
        return et_alsa_locate(a);
    if (n > a->resample.max_in)
        n = a->resample.max_in;
    et_alsa_stage(a, et_resample_feed(&a->resample, pcm, n, a->scratch));
    a->accepted += (int64_t)n;
    return (int)n;
}

static int alsa_start(et_sink *s)
{
    alsa_sink *a = self(s);
    a->want_run = true;
    return et_alsa_pump(a);
}

static int alsa_delay(et_sink *s, int64_t *frames)
{
    alsa_sink *a = self(s);
    int err;
    if ((err = et_alsa_pump(a)) < 0 || ((!a->held || a->hard_held) && (err = et_alsa_locate(a)) < 0))
        return err;
    /* Frames after a fade are silence and do not count as heard. */
    int64_t heard = a->fade_end >= 0 && a->heard > a->fade_end ? a->fade_end : a->heard;
    heard = heard * s->rate / a->setup.rate;
    *frames = a->accepted > heard ? a->accepted - heard : 0;
    return 0;
}

static int alsa_poll(et_sink *s, struct pollfd *fds, int max, bool want, int *timeout_ms)
{
    alsa_sink *a = self(s);
    if (!want || a->held)
        return 0;
    int64_t left_ms = ((a->fade_end >= 0 ? a->fade_end : a->sent) - a->heard) * 1000 / a->setup.rate + 1;
    int limit = (int)(left_ms < 1000 ? left_ms : 1000), n = 0;
    if (a->fade_end >= 0) {
        limit = limit < 1 ? 1 : limit;
    } else if (a->suspended) {
        limit = RESUME_MS;
    } else if (a->finishing && a->sent == a->made) {
        /* Descriptors tell when there is room, not when all is heard. */
        if (limit > DRAIN_MS)
            limit = DRAIN_MS;
    } else {
        n = snd_pcm_poll_descriptors_count(a->pcm);
        n = n > 0 && n <= max ? snd_pcm_poll_descriptors(a->pcm, fds, (unsigned)n) : 0;
        if (n <= 0)
            limit = (int)(a->setup.period * 1000 / (unsigned)a->setup.rate) + 1;
    }
    if (*timeout_ms < 0 || limit < *timeout_ms)
        *timeout_ms = limit;
    return n > 0 ? n : 0;
}

static int alsa_polled(et_sink *s, struct pollfd *fds, int n)
{
    /* Plugins clear their descriptors in this call; errors show at the next write. */
    unsigned short events;
    snd_pcm_poll_descriptors_revents(self(s)->pcm, fds, (unsigned)n, &events);
    return 0;
}

/* --- hold, stop, end --------------------------------------------------------------------------------- */

static int alsa_pause(et_sink *s, bool hold)
{
    alsa_sink *a = self(s);
    int err = 0;
    if (hold == a->held)
        return 0;
    if (!hold) {
        a->held = false;
        if (a->hard_held) {
            a->hard_held = false;
            err = snd_pcm_pause(a->pcm, 0);
            return err < 0 ? et_alsa_on_error(a, err) : 0;
        }
        return et_alsa_pump(a);
    }
    if (a->fade_end >= 0) {
        et_alsa_hold_after_fade(a);
    } else if ((err = et_alsa_locate(a)) == 0 && a->running) {
        if (a->setup.can_pause && !a->draining && snd_pcm_pause(a->pcm, 1) == 0) {
            a->hard_held = true;
        } else {
            snd_pcm_drop(a->pcm);
            et_alsa_rewind_to_heard(a);
        }
    }
    a->held = true;
    return err;
}

static void alsa_drop(et_sink *s)
{
    alsa_sink *a = self(s);
    if (a->pcm)
        snd_pcm_drop(a->pcm);
    a->unprepared = true;
    begin(a);
}

static int alsa_finish(et_sink *s)
{
    alsa_sink *a = self(s);
    a->finishing = true;
    a->flushed = a->fresh;
    return 0;
}

static int alsa_drained(et_sink *s)
{
    alsa_sink *a = self(s);
    int err;
    if (a->held)
        return 0;
    a->want_run = true;
    for (;;) {
        err = et_alsa_pump(a);
        if (err < 0)
            return err == ET_SINK_XRUN ? 0 : err;
        if (a->sent < a->made || a->flushed)
            break;
        size_t n = et_resample_flush(&a->resample, a->scratch);
        et_alsa_stage(a, n);
        a->flushed = n == 0;
    }
    if (a->sent < a->made) {
        err = et_alsa_locate(a);
        return err == ET_SINK_XRUN ? 0 : err;
    }
    /* Late, since a device that drains takes no more frames, not even to fade; so late that it must be known. */
    if ((err = et_alsa_locate(a)) < 0 && err != ET_SINK_XRUN)
        return err;
    if (a->can_drain && a->running && !a->draining && !a->suspended &&
        a->sent - a->heard <= (int64_t)a->setup.rate * (DRAIN_MS + DRAIN_MS / 2) / 1000) {
        err = snd_pcm_drain(a->pcm);
        a->draining = err == 0 || err == -EAGAIN;
        if (!a->draining && (err = et_alsa_on_error(a, err)) < 0 && err != ET_SINK_XRUN)
            return err;
    }
    if ((err = et_alsa_locate(a)) < 0 && err != ET_SINK_XRUN)
        return err;
    if (a->heard < a->sent || a->suspended)
        return 0;
    alsa_drop(s);
    return 1;
}

static void alsa_destroy(et_sink *s)
{
    alsa_sink *a = self(s);
    alsa_close(s);
    free(a->device);
    free(a->format_name);
    free(a);
}

static const et_sink_ops alsa_ops = {
    .name = "alsa",
    .open = alsa_open,
    .write = alsa_write,
    .start = alsa_start,
    .poll = alsa_poll,
    .polled = alsa_polled,
    .delay = alsa_delay,
    .pause = alsa_pause,
    .fade = et_alsa_fade,
    .faded = et_alsa_faded,
    .drop = alsa_drop,
    .finish = alsa_finish,
    .drained = alsa_drained,
    .close = alsa_close,
    .destroy = alsa_destroy,
};

et_sink *et_sink_alsa_new(const et_alsa_config *config, int *err)
{
    *err = -EINVAL;
    if (!config->device || config->rate < 4000 || config->rate > 384000 || config->period_ms < 1 ||
        config->period_ms > ET_MAX_PERIOD_MS || config->buffer_ms < 2 * config->period_ms ||
        config->buffer_ms > ET_MAX_BUFFER_MS ||
        config->channels < 0 || config->channels > 32 || config->device_rate < 0 || config->device_rate > 384000 ||
        config->fade_ms < 0 || config->fade_ms > ET_MAX_FADE_MS)
        return NULL;
    *err = -ENOMEM;
    alsa_sink *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->base.ops = &alsa_ops;
    a->base.rate = config->rate;
    a->base.keep_open_ms = config->keep_open_ms;
    a->base.stall_ms = config->stall_ms;
    a->base.fade_ms = config->fade_ms;
    a->base.paced = true;
    a->config = *config;
    a->device = strdup(config->device);
    a->format_name = strdup(config->format ? config->format : "");
    if (!a->device || !a->format_name) {
        alsa_destroy(&a->base);
        return NULL;
    }
    a->config.device = a->device;
    a->config.format = a->format_name;
    *err = 0;
    return &a->base;
}

void et_sink_alsa_info(const et_sink *s, et_alsa_info *info)
{
    const alsa_sink *a = (const alsa_sink *)s;
    memset(info, 0, sizeof *info);
    if (!a->setup.rate)
        return;
    info->rate = a->setup.rate;
    info->channels = a->setup.channels;
    info->period_frames = (int)a->setup.period;
    info->buffer_frames = (int)a->setup.buffer;
    info->can_pause = a->setup.can_pause;
    info->converts_rate = a->setup.rate != s->rate;
    const char *name = et_alsa_format_name(a->setup.format);
    strncpy(info->format, name ? name : "", sizeof info->format - 1);
}
