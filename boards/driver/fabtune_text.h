/* Messages about a core, and exit statuses: equal in all programs on all systems. */
#ifndef FABTUNE_TEXT_H
#define FABTUNE_TEXT_H

#include "fabtune.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FABTUNE_LINE 320 /* characters of a line, with the terminating 0 */

/* Exit statuses of programs. */
enum fabtune_status {
    FABTUNE_STATUS_RIGHT = 0,        /* all equals golden */
    FABTUNE_STATUS_DIFFERENT = 1,    /* bits or numbers differ from golden */
    FABTUNE_STATUS_USAGE = 2,        /* wrong arguments, or a file or device is missing */
    FABTUNE_STATUS_NO_ANSWER = 3,    /* the bitstream does not answer, or is another bitstream */
    FABTUNE_STATUS_NO_MEMORY = 4,    /* the core does not read or write the memory */
    FABTUNE_STATUS_FAILED = 5,       /* the core has ended a command with an error */
    FABTUNE_STATUS_HUNG = 6,         /* a command, or a soft reset, has not ended in time */
    FABTUNE_STATUS_NO_INTERRUPT = 7, /* a command has ended, its interrupt has not come */
    FABTUNE_STATUS_OTHER_CLOCK = 8,  /* all equals golden, but the core's clock has another rate than expected */
};

enum fabtune_status fabtune_exit_status(enum fabtune_result result);

/* Names of a core's errors by code. */
struct fabtune_error_names {
    const char *const *names; /* NULL for an unused code */
    size_t count;
};

/* Describe the end of a command, for example "right, 1234 cycles". */
void fabtune_describe(char line[FABTUNE_LINE], enum fabtune_result result, const struct fabtune_end *end,
                      const struct fabtune_error_names *errors);

/* Describe the result of fabtune_answers. */
void fabtune_describe_answer(char line[FABTUNE_LINE], enum fabtune_result result, uint32_t found, uint32_t signature);

/* A program's functions for a job, in addition to the core's; NULL if not needed. */
struct fabtune_host {
    /* Synchronise memory between core and program: called with 1 before a command and with 0 after the command. */
    void (*sync)(void *context, int for_core);
    /* Print a line; the line has no newline yet. */
    void (*print)(const char *line);
};

/* Describe how a program waits for the end of a command: "polled, time limit 10 s". */
void fabtune_describe_waiting(char line[FABTUNE_LINE], const struct fabtune_core *core);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_TEXT_H */
