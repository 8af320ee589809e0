#include "fabtune.h"

#include "fabtune_shell.h"

#include <stddef.h>

static uint32_t read_register(const struct fabtune_core *core, uint32_t offset) {
    return core->read(core->context, offset);
}

enum fabtune_result fabtune_check(const struct fabtune_core *core, uint32_t signature) {
    return read_register(core, FABTUNE_SHELL_SIGNATURE) == signature ? FABTUNE_DONE : FABTUNE_OTHER_CORE;
}

void fabtune_set(const struct fabtune_core *core, uint32_t offset, uint32_t value) {
    core->write(core->context, offset, value);
}

void fabtune_set_address(const struct fabtune_core *core, uint32_t offset, uint64_t address) {
    fabtune_set(core, offset, (uint32_t)address);
    fabtune_set(core, offset + 4u, (uint32_t)(address >> 32));
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
    /* an interrupt from before is not this command's */
    fabtune_set(core, FABTUNE_SHELL_INTERRUPT, FABTUNE_SHELL_INTERRUPT_FINISHED_MASK);
    fabtune_set(core, FABTUNE_SHELL_INTERRUPT_ENABLE, core->wait ? FABTUNE_SHELL_INTERRUPT_ENABLE_FINISHED_MASK : 0u);
    fabtune_set(core, FABTUNE_SHELL_COMMAND, command);
    return FABTUNE_DONE;
}

enum fabtune_result fabtune_finish(const struct fabtune_core *core, uint32_t cycles_low, struct fabtune_end *end) {
    uint32_t status, polled = 0;
    struct fabtune_end found = {0, 0, 0};
    for (;;) {
        if (core->wait && core->wait(core->context)) return FABTUNE_NO_INTERRUPT;
        status = read_register(core, FABTUNE_SHELL_STATUS);
        if (status & FABTUNE_SHELL_STATUS_DONE_MASK) break;
        if (core->polls && ++polled >= core->polls) return FABTUNE_HUNG;
    }
    fabtune_set(core, FABTUNE_SHELL_INTERRUPT, FABTUNE_SHELL_INTERRUPT_FINISHED_MASK);
    if (status & FABTUNE_SHELL_STATUS_ERROR_MASK) {
        found.error = (status & FABTUNE_SHELL_STATUS_ERROR_CODE_MASK) >> FABTUNE_SHELL_STATUS_ERROR_CODE_SHIFT;
        found.address = read_register(core, FABTUNE_SHELL_ERROR_ADDRESS);
        found.address |= (uint64_t)read_register(core, FABTUNE_SHELL_ERROR_ADDRESS_HIGH) << 32;
    }
    found.cycles = read_register(core, cycles_low);
    found.cycles |= (uint64_t)read_register(core, cycles_low + 4u) << 32;
    if (end) *end = found;
    return found.error ? FABTUNE_FAILED : FABTUNE_DONE;
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
        /* the counter rests: the command has ended, perhaps before the last read */
        if (watching && cycles == previous) break;
        if (pending.valid) running = pending;
        /* the counter had still the cycles of the command before, or all reads until now were interrupted */
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
