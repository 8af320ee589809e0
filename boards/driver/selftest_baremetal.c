/* Self-test without an operating system, for a Vitis application of the standalone domain: add the files of this folder
 * and selftest_image.S to its sources. */
#include "fabtune_mmio.h"
#include "fabtune_selftest.h"

#include "xil_cache.h"
#include "xil_printf.h"
#include "xtime_l.h"

#ifndef FABTUNE_REGISTERS
#define FABTUNE_REGISTERS 0xA0000000u /* where vivado/system.tcl puts them */
#endif
#define POLLS 100000000u

/* selftest_image.S: room for the job, aligned, with its image at the beginning */
extern unsigned char selftest_memory[];

static void sync(void *context, int for_core) {
    const INTPTR size = (INTPTR)fabtune_selftest.memory_size;
    (void)context;
    if (for_core)
        Xil_DCacheFlushRange((INTPTR)selftest_memory, size);
    else
        Xil_DCacheInvalidateRange((INTPTR)selftest_memory, size);
}

static uint64_t now(void *context) {
    XTime ticks;
    (void)context;
    XTime_GetTime(&ticks);
    return ticks / COUNTS_PER_SECOND * 1000000000u + ticks % COUNTS_PER_SECOND * 1000000000u / COUNTS_PER_SECOND;
}

int main(void) {
    struct fabtune_report report;
    struct fabtune_core core = fabtune_mmio((volatile void *)(UINTPTR)FABTUNE_REGISTERS, POLLS);
    const struct fabtune_selftest *test = &fabtune_selftest;
    core.now = now;
    const enum fabtune_result result =
        fabtune_selftest_run(&core, test, selftest_memory, (UINTPTR)selftest_memory, sync, &report);
    if (report.hertz) xil_printf("clock: %d kHz\r\n", (int)(report.hertz / 1000u));
    if (result == FABTUNE_DONE)
        xil_printf("self-test: all %d stages are right\r\n", (int)test->stage_count);
    else if (result == FABTUNE_OTHER_CLOCK)
        xil_printf("self-test: all %d stages are right, but the clock has %d kHz and not %d kHz\r\n",
                   (int)test->stage_count, (int)(report.hertz / 1000u), (int)(test->clock_hz / 1000u));
    else if (result == FABTUNE_OTHER_CORE)
        xil_printf("self-test: this is not the bitstream of 0x%08x\r\n", (unsigned)test->signature);
    else if (result == FABTUNE_NOT_RESET)
        xil_printf("self-test: the core cannot be reset, as memory does not answer: load the bitstream again\r\n");
    else if (result == FABTUNE_DIFFERENT)
        xil_printf("self-test: stage %d, %s: %s is 0x%08x, golden says 0x%08x\r\n", (int)report.stage + 1,
                   test->stages[report.stage].name, report.what, (unsigned)report.found, (unsigned)report.expected);
    else
        xil_printf("self-test: stage %d, %s: result %d, error %d at 0x%08x%08x\r\n", (int)report.stage + 1,
                   test->stages[report.stage].name, (int)result, (int)report.end.error,
                   (unsigned)(report.end.address >> 32), (unsigned)report.end.address);
    return result != FABTUNE_DONE;
}
