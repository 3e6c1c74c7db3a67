/* Talker, code predictor and decoder without a model: deterministic, paced and able to fail on purpose. They
 * exercise the frame loop, abort and faults where a real model would only add time.
 *
 * Formulas (k: feeds since reset, the prompt is 0; n: frames decoded since reset):
 *   code 0 of frame k      (31 k + 7) mod codes, or eos_id from k = eos_after on; hidden state: all values k
 *   code g of frame k      (13 k + 7 g + 5) mod vocab, k taken from the hidden state
 *   decision of frame k    1 (stop) from k = stop_after on, else 0
 *   sample i of frame n    (((257 * sum of code g * (2 g + 1)) + 1031 n + 97 i) mod 32749 - 16374) / 32768
 * Logits are 50 for the code and -50 elsewhere.
 *
 * A script replaces the formulas where it is given: code 0 of frame k is script[k], and after its end the last
 * `period` codes again and again (0: the formula again); the samples of frame n are divided by 2^levels[n], after
 * the end of levels by its last value. Both start anew with each reset. */
#ifndef ET_FAKE_H
#define ET_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "decoder/et_decoder.h"
#include "predictor/et_predictor.h"
#include "talker/et_talker.h"

/* Calls so far, over the whole life; may be read from any thread. */
typedef struct {
    _Atomic int64_t resets;
    _Atomic int64_t calls;  /* feed; begin and next; decode: also the failed ones */
    _Atomic int64_t units;  /* positions; frames begun; frames decoded */
} et_fake_tally;

typedef struct {
    et_talker base;
    et_fake_tally counts;
    int codes;              /* code 0 is below this */
    int eos_after, eos_id;  /* eos_after < 0: never */
    int step_us;            /* time of a feed */
    int fail_at;            /* feed since reset that fails, < 0: none */
    int16_t *script;        /* [n_script], owned */
    int n_script, period;
    int feeds, n_past;
    float *hidden, *logits;
} et_fake_talker;

typedef struct {
    et_predictor base;
    et_fake_tally counts;
    int substep_us;
    int fail_at;            /* frame (value of the hidden state) whose begin fails, < 0: none */
    bool decides;           /* step 0 is the decision, the others are codes 0.. ; else they are codes 1.. */
    int stop_after;         /* < 0: never */
    int frame, next_step;
    float *logits;
} et_fake_predictor;

typedef struct {
    et_decoder base;
    et_fake_tally counts;
    int frame_us;           /* time of a frame */
    int fail_at;            /* the call that holds this frame since reset fails, < 0: none */
    uint8_t *levels;        /* [n_levels], owned */
    int n_levels;
    int by_chunk;           /* the samples depend on how many frames are decoded at once */
    int64_t frames;
} et_fake_decoder;

/* Fill in the table and allocate the buffers; the other fields are set by the caller. ET_OK or ET_E_MEMORY. */
int et_fake_talker_init(et_fake_talker *t, int hidden, int vocab, int max_context);
void et_fake_talker_free(et_fake_talker *t);
int et_fake_predictor_init(et_fake_predictor *p, int input_hidden, int steps, int vocab);
void et_fake_predictor_free(et_fake_predictor *p);
void et_fake_decoder_free(et_fake_decoder *d);
void et_fake_decoder_init(et_fake_decoder *d, int groups, int samples_per_frame, const int *sizes, int n_sizes);

#endif
