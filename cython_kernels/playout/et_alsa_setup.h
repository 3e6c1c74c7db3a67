/* Agreeing with a PCM on rate, channels, sample format and buffer. */
#ifndef ET_ALSA_SETUP_H
#define ET_ALSA_SETUP_H

#include <alsa/asoundlib.h>

#include "et_resample.h"
#include "et_sink.h"

typedef struct {
    int rate, channels;
    et_sample format;
    snd_pcm_uframes_t period, buffer;
    int64_t ahead;        /* frames that the device may have fetched beyond where it says it is */
    bool can_pause;
} et_alsa_setup;

/* Configure a PCM that was just opened. 0 with *setup, or a negative errno with *step naming what was refused. */
int et_alsa_configure(snd_pcm_t *pcm, const et_alsa_config *config, et_alsa_setup *setup, const char **step);

/* ALSA's name of a sample format. */
const char *et_alsa_format_name(et_sample format);

#endif
