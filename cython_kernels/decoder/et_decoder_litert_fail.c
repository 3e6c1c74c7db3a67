/* The decoder's error text. See et_decoder_litert_parts.h. */
#include <stdarg.h>
#include <stdio.h>

#include "et_decoder_litert_parts.h"

int et_litert_fail(litert_decoder *d, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(d->error, d->error_size, format, args);
    va_end(args);
    return code;
}
