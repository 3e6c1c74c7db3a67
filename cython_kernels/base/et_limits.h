/* Upper bounds of what a bundle or the configuration may ask for. They stand only here: Python reads this file too
 * (edgettsd/limits.py), so that manifest, converter and configuration refuse what the kernels would. */
#ifndef ET_LIMITS_H
#define ET_LIMITS_H

/* The codec. */
#define ET_MAX_GROUPS 32             /* codebooks of one frame */
#define ET_MAX_SPF 4096              /* samples of one frame */
#define ET_MAX_VOCAB 32768           /* codes of a codebook: a code is an int16_t */
#define ET_MAX_CHUNK 32              /* frames of one decoder call */
#define ET_MAX_SIZES 8               /* chunk sizes of a decoder */
#define ET_MAX_STEPS 16              /* chunks of a schedule */
#define ET_MAX_STATES 100            /* state tensors of a decoder: state_00 to state_99 */

/* Talker and predictor. */
#define ET_MAX_HIDDEN 16384
#define ET_MAX_FFN 65536
#define ET_MAX_HEADS 256
#define ET_MAX_HEAD_DIM 256
#define ET_MAX_TALKER_LAYERS 128
#define ET_MAX_PREDICTOR_LAYERS 64
#define ET_MAX_CONTEXT 131072        /* positions of the talker's memory */
#define ET_MAX_GPU_LAYERS 1024
#define ET_MAX_THREADS 64            /* of one stage */
#define ET_MAX_PERIOD 64             /* frames of a pattern whose repetition is looked for */

/* The sound device, in ms. */
#define ET_MAX_PERIOD_MS 1000        /* of a device */
#define ET_MAX_BUFFER_MS 10000
#define ET_MAX_FADE_MS 20
#define ET_MAX_ROLL_MS 5000          /* silence before and after an utterance */

#endif
