/* For programs without an operating system, from the standalone library: a clock, printing, and the core's address. */
#ifndef FABTUNE_STANDALONE_H
#define FABTUNE_STANDALONE_H

#include "fabtune_mmio.h"

#include "xil_printf.h"
#include "xtime_l.h"

#ifndef FABTUNE_REGISTERS
#define FABTUNE_REGISTERS 0xA0000000u /* address in vivado/system.tcl */
#endif

static inline uint64_t standalone_now(void *context) {
    XTime ticks;
    (void)context;
    XTime_GetTime(&ticks);
    return ticks / COUNTS_PER_SECOND * 1000000000u + ticks % COUNTS_PER_SECOND * 1000000000u / COUNTS_PER_SECOND;
}

static inline void standalone_print(const char *line) { xil_printf("%s\r\n", line); }

/* Make the core; a command may take `seconds`. */
static inline struct fabtune_core standalone_core(uint32_t seconds) {
    struct fabtune_core core = fabtune_mmio((volatile void *)(uintptr_t)FABTUNE_REGISTERS, 0);
    core.now = standalone_now;
    core.limit = 1000u * seconds;
    return core;
}

#endif /* FABTUNE_STANDALONE_H */
