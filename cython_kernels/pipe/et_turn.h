/* Turns of generator and decoder where both compute on the same CPUs. Without et_pipe.turns every call does nothing.
 *
 * Private to pipe/; other rooms include et_pipe.h. */
#ifndef ET_TURN_H
#define ET_TURN_H

#include "et_pipe_state.h"

/* Of et_pipe_create and et_pipe_destroy. */
void et_turn_init(et_pipe *p);
void et_turn_free(et_pipe *p);
/* Generator: around each step. Waits while the decoder computes; nanoseconds waited. */
int64_t et_turn_enter(et_pipe *p);
void et_turn_leave(et_pipe *p);
/* Generator, after a frame was pushed: wait until the decoder has looked at the frame, because a chunk that the frame
 * completes would else wait for all of the generator's next step. Waits for 2 ms at most, and not at all for a frame
 * that completes no chunk. */
void et_turn_offer(et_pipe *p);
/* Decoder, of et_pipe_pop_item: every frame taken was put aside or was stale, and none is left in the ring. */
void et_turn_looked(et_pipe *p);
/* Decoder: around each chunk. Waits for the end of the generator's step. */
void et_turn_take(et_pipe *p);
void et_turn_give(et_pipe *p);

#endif
