/* A core at the other end of standard input and output: a line for each access and for the wait of an interrupt. */
#ifndef PIPE_H
#define PIPE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t answer(void) {
    uint32_t value;
    fflush(stdout);
    if (scanf("%" SCNu32, &value) != 1) exit(99);
    return value;
}

static uint32_t pipe_read(void *context, uint32_t offset) {
    (void)context;
    printf("read %" PRIu32 "\n", offset);
    return answer();
}

static void pipe_write(void *context, uint32_t offset, uint32_t value) {
    (void)context;
    printf("write %" PRIu32 " %" PRIu32 "\n", offset, value);
}

static int pipe_wait(void *context) {
    (void)context;
    printf("interrupt\n");
    return (int)answer();
}

/* Time of the core's other end. */
static inline uint64_t pipe_now(void *context) {
    uint64_t nanoseconds;
    (void)context;
    printf("now\n");
    fflush(stdout);
    if (scanf("%" SCNu64, &nanoseconds) != 1) exit(99);
    return nanoseconds;
}

static inline void pipe_print(const char *line) { printf("say %s\n", line); }

#endif /* PIPE_H */
