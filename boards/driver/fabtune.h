/* Driver of fabtune's cores: registers, commands, errors. C11, no allocation, no dependencies.
 *
 * Three functions access a core, so that the same driver serves bare metal (fabtune_mmio.h), Linux (fabtune_uio.h), a
 * simulator, or any other host. A core's header in this folder has the offsets and codes of the core's registers;
 * fabtune_shell.h has the registers common to all cores. */
#ifndef FABTUNE_H
#define FABTUNE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A core, and the functions that access the core. */
struct fabtune_core {
    /* Read, and write, the 32-bit register at a byte offset. */
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    /* Return 0 after the core's interrupt, FABTUNE_WAITING if no interrupt came for a while, a negative value for an
     * error. NULL: the status is polled. */
    int (*wait)(void *context);
    void *context;
    /* Reads of the status, or waits, after which a command counts as hung; 0: never. */
    uint32_t polls;
    /* Nanoseconds of the host's clock, from any start on; NULL: no measurement and no time limit. */
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
    FABTUNE_DIFFERENT,    /* a self-test: the core wrote unexpected data */
    FABTUNE_NO_ANSWER,    /* the registers read as all ones or all zeros */
    FABTUNE_NO_WRITE,     /* a register does not keep the written value */
    FABTUNE_NO_MEMORY,    /* the core cannot address a region; a self-test: cannot read or write the job's memory */
    FABTUNE_NOT_RESET,    /* a soft reset is pending: see fabtune_reset */
    FABTUNE_OTHER_CLOCK   /* a self-test: all is right, but the core's clock is not the expected one */
};

/* How a command ended. */
struct fabtune_end {
    uint32_t error;        /* code of the core's header; 0: none */
    uint32_t status;       /* register of this name, as last read */
    uint64_t address;      /* byte address of the burst that failed, or the offending value */
    uint64_t cycles;       /* clock cycles of the command; of an unfinished command until now */
    uint64_t milliseconds; /* duration, if the core has `now` */
    int counting;          /* of an unfinished command: the cycle counter counts */
};

/* Compare the core's signature with the signature of the program's configuration. */
enum fabtune_result fabtune_check(const struct fabtune_core *core, uint32_t signature);

/* Check that the core answers: the signature, a soft reset, then a register write and read-back.
 *
 * setting: byte offset of a setting of 32 bits, which is 0 afterwards. found: NULL, or destination of the signature or,
 * after a right signature, of the register's read-back.
 * Returns FABTUNE_NO_ANSWER, FABTUNE_OTHER_CORE, FABTUNE_NOT_RESET, FABTUNE_NO_WRITE, or FABTUNE_DONE. */
enum fabtune_result fabtune_answers(const struct fabtune_core *core, uint32_t signature, uint32_t setting,
                                    uint32_t *found);

/* Set a register of 32 bits, or the two registers of a byte address, at a byte offset; only while no command runs. */
void fabtune_set(const struct fabtune_core *core, uint32_t offset, uint32_t value);
void fabtune_set_address(const struct fabtune_core *core, uint32_t offset, uint64_t address);

/* Set the byte address of a region of `size` bytes. The address must be a multiple of 16, and the region must end
 * within the core's address bits, CORE_MEMORY_BITS of the core's header. Returns FABTUNE_DONE, or FABTUNE_NO_MEMORY and
 * sets nothing. */
enum fabtune_result fabtune_set_region(const struct fabtune_core *core, uint32_t offset, uint64_t address, uint64_t size,
                                       unsigned bits);

/* Reads of the register `soft_reset` after which fabtune_reset gives up: 10 ms and more. */
#define FABTUNE_RESET_READS 100000u

/* Reset the core, at any time, and wait until registers and memories are in the state after power-up: load the network
 * again.
 *
 * Call this first, once the clock has the final rate, and to end a hung command. Returns FABTUNE_NOT_RESET after
 * FABTUNE_RESET_READS reads, or after `polls` reads if less and not 0: the memory has not answered a burst. Then only a
 * reset of the bus helps: load the bitstream again. */
enum fabtune_result fabtune_reset(const struct fabtune_core *core);

/* Start a command; wait for its end; both. `cycles_low` is the offset of the register of this name; `end` may be NULL. */
enum fabtune_result fabtune_start(const struct fabtune_core *core, uint32_t command);
enum fabtune_result fabtune_finish(const struct fabtune_core *core, uint32_t cycles_low, struct fabtune_end *end);
enum fabtune_result fabtune_run(const struct fabtune_core *core, uint32_t command, uint32_t cycles_low,
                                struct fabtune_end *end);

/* Cycles of the core's clock, and the nanoseconds of the host's clock in which they passed. */
struct fabtune_rate {
    uint64_t cycles, nanoseconds;
};

/* Watch the running command to its end, for at most `limit` nanoseconds, and add the elapsed time and cycles to `rate`.
 *
 * The core's cycle counter is read repeatedly, each time between two reads of the host's clock; much slower reads are
 * ignored. Fewer than three reads within the command add nothing, as does a core without `now`. A hung command can be
 * watched, too: its counter runs. */
void fabtune_watch(const struct fabtune_core *core, uint32_t cycles_low, uint64_t limit, struct fabtune_rate *rate);

/* Measured hertz, 0 without a measurement; and whether they differ from the expected rate by more than 2 %. The
 * tolerance is more than the measurement's error, and, from 60 MHz on, less than half the step between the processor's
 * rates. */
uint32_t fabtune_hertz(const struct fabtune_rate *rate);
int fabtune_clock_differs(uint32_t hertz, uint32_t expected);

/* CRC-32 of `size` bytes, as by zlib. */
uint32_t fabtune_crc32(const volatile unsigned char *bytes, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_H */
