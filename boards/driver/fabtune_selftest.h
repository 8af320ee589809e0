/* A small job with known results: tells in seconds whether a board computes golden's bits, and if not, the first error.
 *
 * Checks first that the bitstream answers, then that the core accesses the memory, then each stage of the job. The job
 * is data: selftest.c has the stages, selftest.bin the memory before the first stage. */
#ifndef FABTUNE_SELFTEST_H
#define FABTUNE_SELFTEST_H

#include "fabtune.h"
#include "fabtune_text.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A register to set: a value, or the address of a byte of the job's memory. */
struct fabtune_setting {
    uint32_t offset;
    int is_address;
    uint32_t value;
};

/* A register, or bytes of the job's memory, after a command: `expected` is the value, or the CRC-32 of the bytes. */
struct fabtune_expectation {
    const char *what;
    int is_memory;
    uint32_t offset, size, expected;
};

struct fabtune_stage {
    const char *name;
    uint32_t command;
    const struct fabtune_setting *settings;
    size_t setting_count;
    const struct fabtune_expectation *expectations;
    size_t expectation_count;
};

struct fabtune_selftest {
    const char *name; /* of the core */
    uint32_t signature, cycles_low;
    uint32_t setting;   /* offset of a register to try */
    uint32_t clock_hz;  /* required rate of the core's clock; 0: any */
    size_t memory_size; /* bytes of the job, at an address that is a multiple of 16 */
    size_t image_size;  /* bytes of selftest.bin, at the beginning; the rest is 0 */
    const struct fabtune_stage *copy; /* commands with which the core copies a part of the memory */
    size_t copy_count;
    const struct fabtune_stage *stages;
    size_t stage_count;
    struct fabtune_error_names errors;
};

extern const struct fabtune_selftest fabtune_selftest;

/* Where a self-test ended. */
struct fabtune_report {
    size_t stage;     /* number of the stage; `stage_count` if all were right */
    const char *what; /* differing register or region; NULL otherwise */
    uint32_t expected, found;
    struct fabtune_end end;
    uint32_t hertz; /* rate of the core's clock, 0 without a measurement */
};

/* Run a self-test, and print each part at its begin and end.
 *
 * memory, address: the job's memory for the program and for the core, with the image at its beginning.
 * report: NULL, or destination of the report.
 *
 * If the core has `now`, its clock is measured after the stages, also after a wrong stage: the longest command since
 * the last load is repeated until 20 ms were watched. */
enum fabtune_result fabtune_selftest_run(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                         const volatile unsigned char *memory, uint64_t address,
                                         const struct fabtune_host *host, struct fabtune_report *report);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_SELFTEST_H */
