/* A small job whose results are known: tells in seconds whether a board computes golden's bits, and if not, where.
 *
 * First it says whether the bitstream answers at all, then whether the core sees the memory, then each stage of the job.
 * The job is data: selftest.c has its stages, selftest.bin what is in memory before the first one. */
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
    uint32_t setting;   /* offset of a register that is tried */
    uint32_t clock_hz;  /* rate that the core's clock has to have; 0: whichever */
    size_t memory_size; /* bytes that the job needs, at an address that is a multiple of 16 */
    size_t image_size;  /* bytes of selftest.bin, which go to its beginning; the rest is 0 */
    const struct fabtune_stage *copy; /* commands by which the core copies a part of the memory */
    size_t copy_count;
    const struct fabtune_stage *stages;
    size_t stage_count;
    struct fabtune_error_names errors;
};

extern const struct fabtune_selftest fabtune_selftest;

/* Where a self-test ended. */
struct fabtune_report {
    size_t stage;     /* number of the stage; `stage_count` where all were right */
    const char *what; /* what was different; NULL otherwise */
    uint32_t expected, found;
    struct fabtune_end end;
    uint32_t hertz; /* rate of the core's clock, 0 where it was not measured */
};

/* Run a self-test, and print each part of it as it begins and ends.
 *
 * memory, address: the job's memory for the program and for the core, with the image at its beginning.
 * report: NULL, or where to put where it ended.
 *
 * Where the core has `now`, its clock is measured behind the stages, also behind one that is wrong: the longest command
 * since the last load is repeated until it was watched for 20 ms. */
enum fabtune_result fabtune_selftest_run(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                         const volatile unsigned char *memory, uint64_t address,
                                         const struct fabtune_host *host, struct fabtune_report *report);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_SELFTEST_H */
