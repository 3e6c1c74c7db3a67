/* Frames to the device, and getting over what goes wrong there. See et_sink_alsa_parts.h. */
#include <errno.h>

#include "et_fade.h"
#include "et_sink_alsa_parts.h"

/* --- recovery ---------------------------------------------------------------------------------------- */

static int on_xrun(alsa_sink *a)
{
    /* The device stops when it has played all it was given. */
    a->heard = a->sent;
    a->running = a->want_run = a->draining = false;
    a->unprepared = true;
    if (!(a->flushed && a->sent == a->made) && a->fade_end < 0)
        atomic_fetch_add(&a->base.xruns, 1);
    return ET_SINK_XRUN;
}

void et_alsa_rewind_to_heard(alsa_sink *a)
{
    int64_t oldest = a->made - a->capacity;
    a->sent = a->heard > oldest ? a->heard : oldest;
    a->heard = a->sent;
    a->running = a->draining = false;
    a->unprepared = true;
}

/* The machine slept. 0 when the device goes on or must be asked again later. */
static int on_suspend(alsa_sink *a)
{
    if (!a->suspended)
        atomic_fetch_add(&a->base.suspends, 1);
    int err = snd_pcm_resume(a->pcm);
    a->suspended = err == -EAGAIN;
    if (err == -EAGAIN || (err == 0 && snd_pcm_state(a->pcm) != SND_PCM_STATE_SUSPENDED))
        return 0;
    if (err == -ENODEV)
        return err;
    et_alsa_rewind_to_heard(a);
    return 0;
}

int et_alsa_on_error(alsa_sink *a, int err)
{
    if (err == -EPIPE)
        return on_xrun(a);
    if (err == -ESTRPIPE)
        return on_suspend(a);
    return err == -EAGAIN || err == -EINTR ? 0 : err;
}

int et_alsa_locate(alsa_sink *a)
{
    if (!a->running)
        return 0;
    snd_pcm_sframes_t delay = 0;
    int err = snd_pcm_delay(a->pcm, &delay);
    snd_pcm_state_t state = snd_pcm_state(a->pcm);
    if (a->draining && state == SND_PCM_STATE_SETUP) {
        a->heard = a->sent;
        a->running = a->draining = false;
        a->unprepared = true;
        return 0;
    }
    if (state == SND_PCM_STATE_XRUN)
        err = -EPIPE;
    else if (state == SND_PCM_STATE_SUSPENDED)
        err = -ESTRPIPE;
    else if (state == SND_PCM_STATE_DISCONNECTED)
        err = -ENODEV;
    if (err < 0)
        return et_alsa_on_error(a, err);
    a->suspended = false;
    int64_t heard = a->sent - (delay > 0 ? delay : 0);
    if (heard > a->heard)
        a->heard = heard;
    return 0;
}

/* --- frames to the device ---------------------------------------------------------------------------- */

static int run(alsa_sink *a)
{
    if (a->running || !a->want_run || a->sent == a->heard)
        return 0;
    int err = snd_pcm_start(a->pcm);
    if (err < 0 && snd_pcm_state(a->pcm) != SND_PCM_STATE_RUNNING)
        return et_alsa_on_error(a, err);
    a->running = true;
    return 0;
}

int et_alsa_pump(alsa_sink *a)
{
    int err;
    if (a->held || a->fade_end >= 0)
        return 0;
    if (a->suspended && ((err = et_alsa_locate(a)) < 0 || a->suspended))
        return err;
    while (a->sent < a->made) {
        if (a->unprepared) {
            if ((err = snd_pcm_prepare(a->pcm)) < 0)
                return err;
            a->unprepared = false;
        }
        int64_t at = a->sent % a->capacity;
        int64_t n = a->made - a->sent < a->capacity - at ? a->made - a->sent : a->capacity - at;
        snd_pcm_sframes_t got =
            snd_pcm_writei(a->pcm, a->ring + (size_t)at * a->frame_bytes, (snd_pcm_uframes_t)n);
        if (got == -EINTR)
            continue;
        if (got == 0 || got == -EAGAIN)
            break;
        if (got < 0) {
            /* An error that was got over ends this call all the same, because nothing may loop here. */
            return et_alsa_on_error(a, (int)got);
        }
        a->sent += got;
    }
    return run(a);
}

void et_alsa_stage(alsa_sink *a, size_t n)
{
    for (size_t i = 0; a->rise_from >= 0 && i < n; i++)
        a->scratch[i] *= et_fade_gain(a->made + (int64_t)i - a->rise_from, et_alsa_fade_frames(a), true);
    if (a->made - a->rise_from > et_alsa_fade_frames(a))
        a->rise_from = -1;
    for (size_t done = 0; done < n;) {
        int64_t at = a->made % a->capacity;
        size_t room = (size_t)(a->capacity - at), k = n - done < room ? n - done : room;
        et_pack(a->scratch + done, k, a->setup.format, a->setup.channels, a->ring + (size_t)at * a->frame_bytes);
        a->made += (int64_t)k;
        done += k;
    }
}
