/* Text rows of one segment on their way to the talker: one thread writes them, perhaps while the text still grows, the
 * generator reads them. */
#ifndef ET_ROWS_H
#define ET_ROWS_H

#include "pipe/et_pipe.h"

typedef struct et_rows et_rows;

/* Rows of `hidden` floats, at least `capacity` of them unread at a time. NULL with *err set: ET_E_ARG, ET_E_MEMORY. */
et_rows *et_rows_create(et_pipe *pipe, int hidden, size_t capacity, int *err);
/* After both threads have let go of it. */
void et_rows_destroy(et_rows *r);

/* Writer: append up to n rows [n][hidden]; how many there was room for. None after et_rows_close. */
size_t et_rows_write(et_rows *r, const float *rows, size_t n);
/* Writer: the text is over, there are no more rows than those written. */
void et_rows_close(et_rows *r);

/* Generator: the next row into row[hidden]; waits for it while the text may grow, which is progress for the watchdog.
 * 1, or 0 after the last row of a closed text, or ET_E_STALE or ET_E_STOPPED at once when nobody wants it any more. */
int et_rows_next(et_rows *r, uint32_t generation, float *row);

int et_rows_hidden(const et_rows *r);

#endif
