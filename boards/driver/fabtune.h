/* Driver of fabtune's cores: registers, commands, errors. C11, no allocation, no dependencies.
 *
 * A core is reached through three functions, so that the same driver serves bare metal (fabtune_mmio.h), Linux
 * (fabtune_uio.h), a simulator, or anything else. Offsets and codes of a core's own registers are in its header
 * (beside this file); those that every core has are in fabtune_shell.h. */
#ifndef FABTUNE_H
#define FABTUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A core, and how to reach it. */
struct fabtune_core {
    /* Read, and write, the 32-bit register at a byte offset. */
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    /* Return 0 after the core's interrupt, FABTUNE_WAITING where it has not come after a while, a negative value if that
     * fails. NULL: the status is polled. */
    int (*wait)(void *context);
    void *context;
    /* Reads of the status, or waits, after which a command counts as hung; 0: never. */
    uint32_t polls;
    /* Nanoseconds of the host's clock, from any start on; NULL: without it nothing is measured, and no time is up. */
    uint64_t (*now)(void *context);
    /* Milliseconds that a command may take; 0: any time. */
    uint32_t limit;
};

#define FABTUNE_WAITING 1

enum fabtune_result {
    FABTUNE_DONE = 0,     /* the command has ended without error */
    FABTUNE_FAILED,       /* the command has ended with an error: see struct fabtune_end */
    FABTUNE_BUSY,         /* a command is running: nothing was started */
    FABTUNE_HUNG,         /* the command has not ended in time: fabtune_reset ends it */
    FABTUNE_NO_INTERRUPT, /* `wait` has failed, or the command has ended without an interrupt */
    FABTUNE_OTHER_CORE,   /* the core was generated with another configuration */
    FABTUNE_DIFFERENT,    /* a self-test: what the core wrote is not what was expected */
    FABTUNE_NO_ANSWER,    /* the registers read as all ones or all zeros */
    FABTUNE_NO_WRITE,     /* a register does not keep what is written */
    FABTUNE_NO_MEMORY,    /* the core cannot address a region; a self-test: it does not read or write the job's memory */
    FABTUNE_NOT_RESET,    /* a soft reset is pending: see fabtune_reset */
    FABTUNE_OTHER_CLOCK   /* a self-test: all is right, but the core's clock is not the expected one */
};

/* How a command ended. */
struct fabtune_end {
    uint32_t error;        /* code of the core's header; 0: none */
    uint32_t status;       /* register of this name, as it was read last */
    uint64_t address;      /* byte address of the burst that failed, or the offending value */
    uint64_t cycles;       /* clock cycles of the command, of one that has not ended so far */
    uint64_t milliseconds; /* the time that it took, where the core has a clock for it */
    int counting;          /* of a command that has not ended: the cycle counter counts */
};

/* Compare the core's signature with that of the configuration that the program was made for. */
enum fabtune_result fabtune_check(const struct fabtune_core *core, uint32_t signature);

/* Say whether the core answers at all: its signature, a soft reset, then a register that is written and read back.
 *
 * setting: byte offset of a setting of 32 bits, which is 0 afterwards. found: NULL, or where to put the signature or, where
 * that is right, what the register was read back as.
 * Returns FABTUNE_NO_ANSWER, FABTUNE_OTHER_CORE, FABTUNE_NOT_RESET, FABTUNE_NO_WRITE, or FABTUNE_DONE. */
enum fabtune_result fabtune_answers(const struct fabtune_core *core, uint32_t signature, uint32_t setting,
                                    uint32_t *found);

/* Set a register of 32 bits, or a byte address, which has two, at their byte offset; only while no command runs. */
void fabtune_set(const struct fabtune_core *core, uint32_t offset, uint32_t value);
void fabtune_set_address(const struct fabtune_core *core, uint32_t offset, uint64_t address);

/* Set the byte address of a region of so many bytes, which is to be a multiple of 16 and to end within the core's address
 * bits, CORE_MEMORY_BITS of its header. Returns FABTUNE_DONE, or FABTUNE_NO_MEMORY and sets nothing. */
enum fabtune_result fabtune_set_region(const struct fabtune_core *core, uint32_t offset, uint64_t address, uint64_t size,
                                       unsigned bits);

/* Reads of the register `soft_reset` after which fabtune_reset gives up: 10 ms and more. */
#define FABTUNE_RESET_READS 100000u

/* Reset the core, at any time, and wait until all is as after power-up: registers, and memories, which a load fills.
 *
 * To be called first, once the clock has its rate, and to end a command that hangs. FABTUNE_NOT_RESET after
 * FABTUNE_RESET_READS reads, or `polls` if that is less and not 0: the memory has not answered a burst. Only a reset of
 * the bus helps then: load the bitstream again. */
enum fabtune_result fabtune_reset(const struct fabtune_core *core);

/* Start a command; wait for its end; both. `cycles_low` is the offset of the register of this name; `end` may be NULL. */
enum fabtune_result fabtune_start(const struct fabtune_core *core, uint32_t command);
enum fabtune_result fabtune_finish(const struct fabtune_core *core, uint32_t cycles_low, struct fabtune_end *end);
enum fabtune_result fabtune_run(const struct fabtune_core *core, uint32_t command, uint32_t cycles_low,
                                struct fabtune_end *end);

/* Cycles of the core's clock, and nanoseconds of the host's in which they passed. */
struct fabtune_rate {
    uint64_t cycles, nanoseconds;
};

/* Watch the running command to its end, for at most `limit` nanoseconds, and add what passes meanwhile to `rate`.
 *
 * The core's cycle counter is read again and again, between two looks at the host's clock; reads that took much longer
 * than others are left out. Nothing is added where fewer than three reads fall into the command, or without `now`. The
 * command may be one that hangs, as its counter runs. */
void fabtune_watch(const struct fabtune_core *core, uint32_t cycles_low, uint64_t limit, struct fabtune_rate *rate);

/* Hertz of what was watched, 0 where that is nothing; whether they differ from those that are expected by more than
 * 2 %, which is more than the error of the measurement, and less than half the step to the next rate of the processor
 * from 60 MHz on. */
uint32_t fabtune_hertz(const struct fabtune_rate *rate);
int fabtune_clock_differs(uint32_t hertz, uint32_t expected);

/* CRC-32 of so many bytes, as zlib has it. */
uint32_t fabtune_crc32(const volatile unsigned char *bytes, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_H */
