/* The first steps of a talker that was just loaded. */
#ifndef ET_TALKER_WARM_UP_H
#define ET_TALKER_WARM_UP_H

#include "et_talker.h"

/* Feed up to `rows` rows of zeros, then one row that is timed (warm_ns), and forget them. ET_OK or what failed. */
int et_talker_warm_up(et_talker *t, int rows);

#endif
