/* See et_alsa_setup.h. */
#include "et_alsa_setup.h"

#include <errno.h>
#include <string.h>

static snd_pcm_format_t alsa_format(et_sample format)
{
    switch (format) {
    case ET_S16: return SND_PCM_FORMAT_S16;
    case ET_S32: return SND_PCM_FORMAT_S32;
    case ET_S24: return SND_PCM_FORMAT_S24;
    case ET_F32: return SND_PCM_FORMAT_FLOAT;
    case ET_S24_3:
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        return SND_PCM_FORMAT_S24_3LE;
#endif
    default: return SND_PCM_FORMAT_UNKNOWN;
    }
}

const char *et_alsa_format_name(et_sample format)
{
    return snd_pcm_format_name(alsa_format(format));
}

static int choose_rate(snd_pcm_t *pcm, snd_pcm_hw_params_t *hw, const et_alsa_config *c, int *rate)
{
    /* The best first: no conversion, then whole multiples of speech rates, then what is left. */
    const int rates[] = {c->rate, 48000, 96000, 192000, 44100, 88200, 32000, 22050, 16000, 8000};
    if (c->device_rate > 0) {
        *rate = c->device_rate;
        return snd_pcm_hw_params_set_rate(pcm, hw, (unsigned)*rate, 0);
    }
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (snd_pcm_hw_params_test_rate(pcm, hw, (unsigned)rates[i], 0) == 0) {
            *rate = rates[i];
            return snd_pcm_hw_params_set_rate(pcm, hw, (unsigned)*rate, 0);
        }
    unsigned near = (unsigned)c->rate;
    int err = snd_pcm_hw_params_set_rate_near(pcm, hw, &near, NULL);
    *rate = (int)near;
    return err;
}

static int choose_channels(snd_pcm_t *pcm, snd_pcm_hw_params_t *hw, const et_alsa_config *c, int *channels)
{
    unsigned n = c->channels > 0 ? (unsigned)c->channels : 1;
    int err = c->channels > 0 ? snd_pcm_hw_params_set_channels(pcm, hw, n)
                              : snd_pcm_hw_params_set_channels_near(pcm, hw, &n);
    *channels = (int)n;
    return err;
}

static int choose_format(snd_pcm_t *pcm, snd_pcm_hw_params_t *hw, const et_alsa_config *c, et_sample *format)
{
    static const et_sample order[] = {ET_S16, ET_S32, ET_S24, ET_S24_3, ET_F32};
    snd_pcm_format_t wanted = SND_PCM_FORMAT_UNKNOWN;
    if (c->format && *c->format && (wanted = snd_pcm_format_value(c->format)) == SND_PCM_FORMAT_UNKNOWN)
        return -EINVAL;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        snd_pcm_format_t f = alsa_format(order[i]);
        if (f == SND_PCM_FORMAT_UNKNOWN || (wanted != SND_PCM_FORMAT_UNKNOWN && f != wanted))
            continue;
        if (snd_pcm_hw_params_test_format(pcm, hw, f) == 0) {
            *format = order[i];
            return snd_pcm_hw_params_set_format(pcm, hw, f);
        }
    }
    return -EINVAL;
}

static int hardware(snd_pcm_t *pcm, const et_alsa_config *c, int resample, et_alsa_setup *s, const char **step)
{
    snd_pcm_hw_params_t *hw;
    snd_pcm_hw_params_alloca(&hw);
    int err;
    *step = "configurations";
    if ((err = snd_pcm_hw_params_any(pcm, hw)) < 0)
        return err;
    /* Plug devices would convert the rate with whatever is installed; we do it better. */
    if (!resample)
        snd_pcm_hw_params_set_rate_resample(pcm, hw, 0);
    *step = "interleaved access";
    if ((err = snd_pcm_hw_params_set_access(pcm, hw, SND_PCM_ACCESS_RW_INTERLEAVED)) < 0)
        return err;
    *step = "rate";
    if ((err = choose_rate(pcm, hw, c, &s->rate)) < 0)
        return err;
    *step = "channels";
    if ((err = choose_channels(pcm, hw, c, &s->channels)) < 0)
        return err;
    *step = "format";
    if ((err = choose_format(pcm, hw, c, &s->format)) < 0)
        return err;
    *step = "period";
    s->period = (snd_pcm_uframes_t)((int64_t)s->rate * c->period_ms / 1000);
    if ((err = snd_pcm_hw_params_set_period_size_near(pcm, hw, &s->period, NULL)) < 0)
        return err;
    *step = "buffer";
    s->buffer = (snd_pcm_uframes_t)((int64_t)s->rate * c->buffer_ms / 1000);
    if (s->buffer < 2 * s->period)
        s->buffer = 2 * s->period;
    if ((err = snd_pcm_hw_params_set_buffer_size_near(pcm, hw, &s->buffer)) < 0)
        return err;
    *step = "parameters";
    if ((err = snd_pcm_hw_params(pcm, hw)) < 0)
        return err;
    if ((err = snd_pcm_hw_params_get_period_size(hw, &s->period, NULL)) < 0 ||
        (err = snd_pcm_hw_params_get_buffer_size(hw, &s->buffer)) < 0)
        return err;
    s->can_pause = snd_pcm_hw_params_can_pause(hw);
    int fifo = snd_pcm_hw_params_get_fifo_size(hw);
    s->ahead = (fifo > 0 ? fifo : 0) + (snd_pcm_hw_params_is_batch(hw) ? (int64_t)s->period : 0);
    return 0;
}

static int software(snd_pcm_t *pcm, const et_alsa_setup *s, const char **step)
{
    snd_pcm_sw_params_t *sw;
    snd_pcm_sw_params_alloca(&sw);
    snd_pcm_uframes_t boundary;
    int err;
    *step = "software parameters";
    if ((err = snd_pcm_sw_params_current(pcm, sw)) < 0 ||
        (err = snd_pcm_sw_params_get_boundary(sw, &boundary)) < 0 ||
        /* Only snd_pcm_start starts; the device stops when it has played all there is. */
        (err = snd_pcm_sw_params_set_start_threshold(pcm, sw, boundary)) < 0 ||
        (err = snd_pcm_sw_params_set_stop_threshold(pcm, sw, s->buffer)) < 0 ||
        (err = snd_pcm_sw_params_set_avail_min(pcm, sw, s->period)) < 0)
        return err;
    /* The device fills its buffer with silence, because it plays on past the last frame until it notices. */
    snd_pcm_sw_params_set_silence_threshold(pcm, sw, 0);
    snd_pcm_sw_params_set_silence_size(pcm, sw, boundary);
    return snd_pcm_sw_params(pcm, sw);
}

int et_alsa_configure(snd_pcm_t *pcm, const et_alsa_config *config, et_alsa_setup *setup, const char **step)
{
    int err = hardware(pcm, config, 0, setup, step);
    if (err < 0 && err != -EBUSY && err != -ENODEV)
        err = hardware(pcm, config, 1, setup, step);
    return err < 0 ? err : software(pcm, setup, step);
}
