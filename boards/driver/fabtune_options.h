/* Arguments of the programs for systems with a command line: options, which may stand anywhere, and three words. */
#ifndef FABTUNE_OPTIONS_H
#define FABTUNE_OPTIONS_H

#include "fabtune.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FABTUNE_OPTIONS "[--poll] [--seconds N]"

struct fabtune_options {
    int poll;       /* poll the status instead of waiting for the interrupt */
    uint32_t limit; /* milliseconds that a command may take */
    const char *words[3];
};

/* Read arguments; `limit` keeps its value without --seconds. Returns 0, or -1 after a line on standard error.
 * usage: the three words, for that line. */
int fabtune_options_read(struct fabtune_options *options, int count, char **arguments, const char *usage);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_OPTIONS_H */
