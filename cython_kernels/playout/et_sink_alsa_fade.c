/* Fading what a device has already been given. See et_sink_alsa_parts.h. */
#include "base/et_wait.h"
#include "et_fade.h"
#include "et_sink_alsa_parts.h"

/* GUARD_MS: the sound of the next milliseconds is left alone, because the device may have fetched it already.
 * REACH_MS: where a fade could begin only later than this, the sound is cut.
 * LATE_MS: so long after its planned end a fade counts as heard, because some devices never report that position. */
enum { GUARD_MS = 2, REACH_MS = 40, LATE_MS = 8 };

/* Fade n frames of the ring from `from` on, in place. */
static void fade_ring(alsa_sink *a, int64_t from, int64_t n, int64_t length, bool rising)
{
    for (int64_t i = 0; i < n; i++)
        et_fade_frames(a->ring + (size_t)((from + i) % a->capacity) * a->frame_bytes, 1, a->setup.format,
                       a->setup.channels, i, length, rising);
}

/* Write n frames that the device has room for, since it was just rewound; how many it took. */
static int64_t overwrite(alsa_sink *a, const unsigned char *src, int64_t n)
{
    int64_t done = 0;
    while (done < n) {
        snd_pcm_sframes_t got =
            snd_pcm_writei(a->pcm, src + (size_t)done * a->frame_bytes, (snd_pcm_uframes_t)(n - done));
        if (got == -EINTR)
            continue;
        if (got <= 0)
            break;
        done += got;
    }
    return done;
}

/* snd_pcm_drop cuts the sound at once. The only call that reaches frames which were written before is snd_pcm_rewind:
 * it moves the application's pointer back over frames that the device has not fetched, and these can be written anew.
 * - Kernel drivers and mixers in shared memory can rewind, unless they say otherwise.
 * - Plugins that convert the rate cannot, and say so.
 * - Sound servers' plugins say that they can, but play on what they have. The delay tells, because a true rewind makes
 *   it shorter.
 * A device that plays on without either sign is cut by the drop that follows, GUARD_MS and a fade's length later. */
int et_alsa_fade(et_sink *s)
{
    alsa_sink *a = (alsa_sink *)s;
    int64_t length = et_alsa_fade_frames(a);
    if (a->fade_end >= 0)
        return 1;
    if (length <= 0 || a->held || a->suspended || a->draining || a->unprepared)
        return 0;
    int err = et_alsa_locate(a);
    if (err < 0 || !a->running || a->suspended)
        return err;
    int64_t guard = (int64_t)a->setup.rate * GUARD_MS / 1000 + a->setup.ahead;
    int64_t left = a->sent - a->heard, can = snd_pcm_rewindable(a->pcm);
    left = (left < can ? left : can) - guard;
    if (left <= 0 || a->sent - left - a->heard > (int64_t)a->setup.rate * REACH_MS / 1000)
        return 0;
    left = snd_pcm_rewind(a->pcm, (snd_pcm_uframes_t)left);
    snd_pcm_sframes_t delay = 0;
    if (left <= 0)
        return 0;
    if (snd_pcm_delay(a->pcm, &delay) == 0 && delay > a->sent - a->heard - left / 2) {
        /* Only the pointer moved, and the device plays on. The pointer is put back, because a pause would else go on as
         * if these frames had never been sent. */
        snd_pcm_forward(a->pcm, (snd_pcm_uframes_t)left);
        return 0;
    }
    int64_t from = a->sent - left, n = left < length ? left : length;
    a->fade_end = from + n;
    a->fade_until = et_now_ns() + (a->fade_end - a->heard) * 1000000000 / a->setup.rate + LATE_MS * 1000000;
    fade_ring(a, from, n, n, false);
    for (int64_t done = 0; done < left;) {
        /* Everything up to the old end is overwritten, with silence after the fade, because the drop may come late. */
        int64_t at = (from + done) % a->capacity, most = (int64_t)a->setup.period, k = left - done;
        const unsigned char *src = a->zeros;
        if (done < n) {
            src = a->ring + (size_t)at * a->frame_bytes;
            most = a->capacity - at < n - done ? a->capacity - at : n - done;
        }
        k = k < most ? k : most;
        if (overwrite(a, src, k) < k)
            /* The device ran dry between the two calls, or failed: it is silent at once. */
            break;
        done += k;
    }
    return 1;
}

int et_alsa_faded(et_sink *s)
{
    alsa_sink *a = (alsa_sink *)s;
    /* An xrun, a suspend or an unplugged device is silence, too. */
    if (a->fade_end < 0 || et_alsa_locate(a) < 0 || !a->running || a->suspended || a->heard >= a->fade_end)
        return 1;
    if (et_now_ns() < a->fade_until)
        return 0;
    a->heard = a->fade_end;
    return 1;
}

void et_alsa_hold_after_fade(alsa_sink *a)
{
    snd_pcm_drop(a->pcm);
    a->sent = a->heard = a->rise_from = a->heard < a->fade_end ? a->heard : a->fade_end;
    a->fade_end = -1;
    a->want_run = true;
    a->running = a->draining = a->suspended = false;
    a->unprepared = true;
    int64_t made = a->made - a->rise_from, n = et_alsa_fade_frames(a);
    fade_ring(a, a->rise_from, made < n ? made : n, n, true);
}
