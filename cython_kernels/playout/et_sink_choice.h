/* Which sink serves which generation: written by the loop, read by the playout thread. */
#ifndef ET_SINK_CHOICE_H
#define ET_SINK_CHOICE_H

#include <pthread.h>

#include "pipe/et_pipe.h"
#include "et_sink.h"

typedef struct {
    pthread_mutex_t lock;      /* held for a few instructions, once an utterance */
    et_sink *assigned;         /* for generations before next_from */
    et_sink *next;             /* from generation next_from on */
    uint32_t next_from;
    et_sink *held;             /* what the thread has in its hands */
} et_sink_choice;

void et_choice_init(et_sink_choice *c);
void et_choice_free(et_sink_choice *c);

/* Whether generation a is b or came after it; the numbers wrap around. */
static inline bool et_choice_reached(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) >= 0;
}

/* Loop: the sink for the generation after the live one. */
void et_choice_set(et_sink_choice *c, const et_pipe *p, et_sink *sink);

/* Loop: whether the thread has the sink or may take it up. */
bool et_choice_uses(et_sink_choice *c, const et_sink *sink);

/* Thread: *sink is the sink (may be NULL) of the thread's generation. The thread holds that sink from now on; where it
 * holds another one still, it must let the other one go and ask again. 0, or -ESTALE when the generation is no longer
 * live. */
int et_choice_take(et_sink_choice *c, const et_pipe *p, uint32_t generation, et_sink **sink);
void et_choice_let_go(et_sink_choice *c);

#endif
