/* The frame loop: one segment (a sentence) from prompt rows to codes in the pipe. */
#ifndef ET_GENERATE_H
#define ET_GENERATE_H

#include "et_frames.h"
#include "et_plan.h"
#include "et_rows.h"
#include "predictor/et_predictor.h"
#include "sampling/et_sampler.h"
#include "talker/et_talker.h"

/* Embedding rows of one codebook, f32 or f16, usually memory-mapped. */
typedef struct {
    const void *data;
    int rows;
    int dim;
    int f16;
} et_table;

void et_table_copy(const et_table *t, int row, float *out);
void et_table_add(const et_table *t, int row, float *out);

typedef struct {
    et_pipe *pipe;
    et_talker *talker;
    et_predictor *predictor;        /* NULL where the plan has no local step */
    et_table tables[ET_MAX_GROUPS]; /* codebook g's rows in the talker's space */
    et_plan plan;
    et_sampler samplers[ET_PLAN_STEPS];
    int n_samplers;
    float *constant;                /* [hidden] the plan's constant row, NULL where it has none */
    et_frames frames;               /* of the segment being made */
    float *row;                     /* [hidden] next talker input */
    float *part;                    /* [hidden] row of one codebook */
    et_delay delay;
    float *prefix;                  /* [n_prefix][hidden] rows that the talker holds at its first positions */
    int n_prefix;
    int64_t step_ns;                /* the talker's last step of one row */
} et_generator;

/* predictor and constant [hidden] may be NULL where the plan does not need them; there is a table for each of the
 * pipe's codebooks. ET_OK, ET_E_ARG or ET_E_MEMORY. */
int et_generator_init(et_generator *g, et_pipe *pipe, et_talker *talker, et_predictor *predictor,
                      const et_table *tables, const et_plan *plan, const float *constant);
void et_generator_free(et_generator *g);

typedef struct {
    et_bounds bounds;       /* end_frames: the plan's end is banned */
    const float *prompt;    /* [n_prompt][hidden] */
    int n_prompt;
    int n_prefix;           /* leading rows of the prompt that are likely to come again: they are fed apart, and not
                               at all while the talker still holds them; 0: none */
    et_rows *rows;          /* the i-th one is added to the input at frame i, and waited for; NULL: none */
    const float *pad_row;   /* [hidden]: added after the last one */
    et_sampling sampling[ET_PLAN_STEPS];   /* of each of the plan's samplers */
    const uint8_t *banned[ET_PLAN_STEPS];  /* of each step [vocab]: ids that are never drawn; NULL: none */
    int min_frames;         /* the plan's end is banned before this many */
    uint64_t seed, stream;
} et_segment;

/* Nanoseconds spent, summed over the segment; for statistics. */
typedef struct {
    int frames;
    int reason;             /* enum et_reason: COMPLETED, LIMIT, RUNAWAY, ABORTED or ERROR */
    int error;              /* enum et_error behind RUNAWAY (ET_OK: codes repeat), ABORTED or ERROR */
    int64_t begin_ns;       /* CLOCK_MONOTONIC */
    int64_t wall_ns;        /* begin to end; what is in none of the parts is the loop itself */
    int64_t prefill_ns, talker_ns, predictor_ns, sample_ns, wait_ns;
    int64_t text_ns;        /* waited for text that still grows */
    int64_t turn_ns;        /* waited for the decoder, where both share CPUs; of the prefill it is in prefill_ns */
    int64_t first_frame_ns; /* CLOCK_MONOTONIC of the first frame pushed, 0 when none */
    int substeps;           /* predictor sub-steps run */
    int steps;              /* talker steps run after the prefill */
} et_result;

/* Runs until the plan's end, end_frames, max_frames, a runaway, a new generation or an error. Pushes SEG_BEGIN, frames, SEG_END.
 * When codes is not NULL the frames [max_codes][groups] are also written there (max_codes frames at most). */
void et_generate(et_generator *g, const et_segment *seg, et_result *result, int16_t *codes, int max_codes);

#endif
