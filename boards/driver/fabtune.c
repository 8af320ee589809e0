#include "fabtune.h"

#include "fabtune_shell.h"

#include <stddef.h>

#define ALL_ONES 0xFFFFFFFFu

static uint32_t read_register(const struct fabtune_core *core, uint32_t offset) {
    return core->read(core->context, offset);
}

enum fabtune_result fabtune_check(const struct fabtune_core *core, uint32_t signature) {
    return read_register(core, FABTUNE_SHELL_SIGNATURE) == signature ? FABTUNE_DONE : FABTUNE_OTHER_CORE;
}

enum fabtune_result fabtune_answers(const struct fabtune_core *core, uint32_t signature, uint32_t setting,
                                    uint32_t *found) {
    static const uint32_t patterns[] = {0xA5A5A5A5u, 0x5A5A5A5Au, 0u};
    uint32_t value = read_register(core, FABTUNE_SHELL_SIGNATURE);
    enum fabtune_result result = FABTUNE_DONE;
    if (value != signature) {
        result = value == ALL_ONES || value == 0u ? FABTUNE_NO_ANSWER : FABTUNE_OTHER_CORE;
    } else {
        result = fabtune_reset(core); /* also ends an earlier command */
        for (size_t at = 0; !result && at < sizeof patterns / sizeof *patterns; ++at) {
            fabtune_set(core, setting, patterns[at]);
            value = read_register(core, setting);
            if (value != patterns[at]) result = FABTUNE_NO_WRITE;
        }
    }
    if (found) *found = value;
    return result;
}

void fabtune_set(const struct fabtune_core *core, uint32_t offset, uint32_t value) {
    core->write(core->context, offset, value);
}

void fabtune_set_address(const struct fabtune_core *core, uint32_t offset, uint64_t address) {
    fabtune_set(core, offset, (uint32_t)address);
    fabtune_set(core, offset + 4u, (uint32_t)(address >> 32));
}

enum fabtune_result fabtune_set_region(const struct fabtune_core *core, uint32_t offset, uint64_t address, uint64_t size,
                                       unsigned bits) {
    const uint64_t end = (uint64_t)1 << bits;
    if (address % 16u || address > end || size > end - address) return FABTUNE_NO_MEMORY;
    fabtune_set_address(core, offset, address);
    return FABTUNE_DONE;
}

enum fabtune_result fabtune_reset(const struct fabtune_core *core) {
    const uint32_t most = core->polls && core->polls < FABTUNE_RESET_READS ? core->polls : FABTUNE_RESET_READS;
    fabtune_set(core, FABTUNE_SHELL_SOFT_RESET, FABTUNE_SHELL_SOFT_RESET_PENDING_MASK);
    for (uint32_t at = 0; at < most; ++at)
        if (!(read_register(core, FABTUNE_SHELL_SOFT_RESET) & FABTUNE_SHELL_SOFT_RESET_PENDING_MASK)) return FABTUNE_DONE;
    return FABTUNE_NOT_RESET;
}

enum fabtune_result fabtune_start(const struct fabtune_core *core, uint32_t command) {
    if (read_register(core, FABTUNE_SHELL_STATUS) & FABTUNE_SHELL_STATUS_BUSY_MASK) return FABTUNE_BUSY;
    /* clear an earlier command's interrupt */
    fabtune_set(core, FABTUNE_SHELL_INTERRUPT, FABTUNE_SHELL_INTERRUPT_FINISHED_MASK);
    fabtune_set(core, FABTUNE_SHELL_INTERRUPT_ENABLE, core->wait ? FABTUNE_SHELL_INTERRUPT_ENABLE_FINISHED_MASK : 0u);
    fabtune_set(core, FABTUNE_SHELL_COMMAND, command);
    return FABTUNE_DONE;
}

static uint64_t read_wide(const struct fabtune_core *core, uint32_t low) {
    const uint64_t found = read_register(core, low);
    return found | (uint64_t)read_register(core, low + 4u) << 32;
}

static uint64_t milliseconds(const struct fabtune_core *core) {
    return core->now ? core->now(core->context) / 1000000u : 0u;
}

/* Wait for the end of a command; sets `status` and `milliseconds` of `end`. */
static enum fabtune_result wait_for_end(const struct fabtune_core *core, struct fabtune_end *end) {
    const uint64_t start = milliseconds(core);
    uint32_t polled = 0;
    for (int without = 0;;) {
        const int waited = core->wait ? core->wait(core->context) : 0;
        end->status = read_register(core, FABTUNE_SHELL_STATUS);
        end->milliseconds = milliseconds(core) - start;
        if (waited < 0) return FABTUNE_NO_INTERRUPT;
        if (end->status == ALL_ONES) return FABTUNE_NO_ANSWER;
        if (end->status & FABTUNE_SHELL_STATUS_DONE_MASK) {
            if (!waited) return FABTUNE_DONE;
            /* the command may have ended between the wait and the read: then the interrupt is pending now */
            if (without++) return FABTUNE_NO_INTERRUPT;
        }
        if (core->polls && ++polled >= core->polls) return FABTUNE_HUNG;
        if (core->now && core->limit && end->milliseconds >= core->limit) return FABTUNE_HUNG;
    }
}

enum fabtune_result fabtune_finish(const struct fabtune_core *core, uint32_t cycles_low, struct fabtune_end *end) {
    struct fabtune_end found = {0};
    const enum fabtune_result result = wait_for_end(core, &found);
    if (result == FABTUNE_DONE) fabtune_set(core, FABTUNE_SHELL_INTERRUPT, FABTUNE_SHELL_INTERRUPT_FINISHED_MASK);
    if (result != FABTUNE_NO_ANSWER) {
        found.error = (found.status & FABTUNE_SHELL_STATUS_ERROR_CODE_MASK) >> FABTUNE_SHELL_STATUS_ERROR_CODE_SHIFT;
        if (found.error) found.address = read_wide(core, FABTUNE_SHELL_ERROR_ADDRESS);
        found.cycles = read_wide(core, cycles_low);
        found.counting = result == FABTUNE_HUNG && read_wide(core, cycles_low) != found.cycles;
    }
    if (end) *end = found;
    return result ? result : found.error ? FABTUNE_FAILED : FABTUNE_DONE;
}

enum fabtune_result fabtune_run(const struct fabtune_core *core, uint32_t command, uint32_t cycles_low,
                                struct fabtune_end *end) {
    enum fabtune_result started = fabtune_start(core, command);
    return started ? started : fabtune_finish(core, cycles_low, end);
}

void fabtune_watch(const struct fabtune_core *core, uint32_t cycles_low, uint64_t limit, struct fabtune_rate *rate) {
    struct {
        uint64_t time;
        uint32_t cycles;
        int valid;
    } first = {0, 0, 0}, running = {0, 0, 0}, pending = {0, 0, 0};
    if (!core->now) return;
    uint64_t begun = 0, shortest = UINT64_MAX, after;
    uint32_t previous = 0;
    int watching = 0;
    do {
        const uint64_t before = core->now(core->context);
        const uint32_t cycles = read_register(core, cycles_low);
        after = core->now(core->context);
        if (!watching) begun = before;
        /* the counter stands still: the command has ended, perhaps before the last read */
        if (watching && cycles == previous) break;
        if (pending.valid) running = pending;
        /* the counter still had the previous command's cycles, or all reads until now were interrupted */
        if ((watching && (int32_t)(cycles - previous) < 0) || after - before < shortest / 2) {
            shortest = after - before;
            first.valid = running.valid = 0;
        }
        watching = 1, previous = cycles;
        pending.time = before + (after - before) / 2, pending.cycles = cycles;
        pending.valid = after - before <= 2 * shortest;
        if (!first.valid) first = pending;
    } while (after - begun < limit);
    if (!first.valid || !running.valid) return;
    rate->cycles += (uint32_t)(running.cycles - first.cycles);
    rate->nanoseconds += running.time - first.time;
}

uint32_t fabtune_hertz(const struct fabtune_rate *rate) {
    if (!rate->nanoseconds) return 0;
    return (uint32_t)((double)rate->cycles * 1e9 / (double)rate->nanoseconds + 0.5);
}

int fabtune_clock_differs(uint32_t hertz, uint32_t expected) {
    const uint32_t apart = hertz > expected ? hertz - expected : expected - hertz;
    return apart > expected / 50u;
}

uint32_t fabtune_crc32(const volatile unsigned char *bytes, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t at = 0; at < size; ++at) {
        crc ^= bytes[at];
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}
