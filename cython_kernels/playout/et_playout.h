/* The playout thread: PCM of the live generation from the pipe to a sink.
 *
 * Each generation ends with exactly one event:
 *   ET_EV_FINISHED  everything was heard (value: samples)
 *   ET_EV_DROPPED   another generation became live before (value: samples heard)
 *   ET_EV_DEVICE    the sink failed (value: negative errno); what is left of the generation is thrown away
 * From that event on the thread does not use the generation's sink any more, unless the sink is kept open
 * (keep_open_ms) or chosen again; et_playout_uses tells. */
#ifndef ET_PLAYOUT_H
#define ET_PLAYOUT_H

#include "pipe/et_pipe.h"
#include "et_sink.h"

typedef struct et_playout et_playout;

/* Silence around every utterance, ms. NULL when memory is short or a value is outside 0..ET_MAX_ROLL_MS. */
et_playout *et_playout_new(int preroll_ms, int postroll_ms);
void et_playout_free(et_playout *o);

/* Loop: the sink (may be NULL) for the generation that et_pipe_next_generation makes live next, and for those
 * after it. */
void et_playout_set_sink(et_pipe *p, et_playout *o, et_sink *sink);

/* Whether the thread has the sink or may take it up. When false it stays so until set_sink names it again. */
bool et_playout_uses(et_playout *o, const et_sink *sink);

/* Run until et_pipe_stop. The thread beats (playout_beat) whenever it is woken, so wake it to see it alive. */
void et_playout_loop(et_pipe *p, et_playout *o);

#endif
