#include "et_log.h"

#include <ggml.h>
#include <llama.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ET_LOG_SIZE 1024

/* Per thread: two models may load at the same time. */
static _Thread_local char errors[ET_LOG_SIZE];
static _Thread_local bool in_error;  /* a continuation line belongs to an error */

static void on_log(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)user_data;
    if (level != GGML_LOG_LEVEL_CONT)
        in_error = level == GGML_LOG_LEVEL_ERROR;
    if (!in_error)
        return;
    size_t used = strlen(errors);
    for (; *text && used + 2 < sizeof errors; text++) {
        if (*text != '\n')
            errors[used++] = *text;
        else if (used && errors[used - 1] != ';')
            errors[used++] = ';';
    }
    errors[used] = '\0';
}

void et_log_begin(void)
{
    errors[0] = '\0';
    in_error = false;
    llama_log_set(on_log, NULL);  /* sets ggml's too */
}

const char *et_log_errors(void)
{
    size_t n = strlen(errors);
    if (n && errors[n - 1] == ';')
        errors[n - 1] = '\0';
    return errors;
}

void et_log_describe(char *err, size_t size, const char *prefix)
{
    const char *said = et_log_errors();
    snprintf(err, size, *said ? "%s: %s" : "%s", prefix, said);
}
