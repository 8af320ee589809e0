/* The driver's self-test with a core at the other end of standard input and output: a line for each access. Memory is a
 * file that both map. Arguments: memory file, its address for the core, "polling" or "interrupt", polls. */
#include "fabtune_selftest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint32_t answer(void) {
    uint32_t value;
    fflush(stdout);
    if (scanf("%" SCNu32, &value) != 1) exit(3);
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

static void pipe_sync(void *context, int for_core) {
    (void)context;
    printf("sync %d\n", for_core);
    answer();
}

int main(int count, char **arguments) {
    if (count != 5) return 3;
    const int file = open(arguments[1], O_RDWR);
    const size_t size = fabtune_selftest.memory_size;
    unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || memory == MAP_FAILED) return 3;
    struct fabtune_core core = {pipe_read, pipe_write, NULL, NULL, (uint32_t)strtoul(arguments[4], NULL, 0)};
    if (!strcmp(arguments[3], "interrupt")) core.wait = pipe_wait;
    struct fabtune_report report;
    const enum fabtune_result result = fabtune_selftest_run(&core, &fabtune_selftest, memory,
                                                            strtoull(arguments[2], NULL, 0), pipe_sync, &report);
    printf("result %d %zu %" PRIu32 " %" PRIu64 " %" PRIu64 " %s\n", (int)result, report.stage, report.end.error,
           report.end.address, report.end.cycles, report.what ? report.what : "-");
    munmap(memory, size);
    return 0;
}
