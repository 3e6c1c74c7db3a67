/* The log of libllama and ggml, kept for an error message instead of printed. */
#ifndef ET_LOG_H
#define ET_LOG_H

#include <stddef.h>

/* Route the libraries' log to this thread's buffer and empty it. Call before loading. */
void et_log_begin(void);
/* The error lines that this thread has caused since et_log_begin, "" when there are none. */
const char *et_log_errors(void);
/* "prefix: errors" into err, or only the prefix when the libraries said nothing. */
void et_log_describe(char *err, size_t size, const char *prefix);

#endif
