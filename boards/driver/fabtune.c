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
