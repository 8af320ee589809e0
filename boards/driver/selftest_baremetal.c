/* Self-test without an operating system, for a Vitis application of the standalone domain: add the files of this folder
 * and selftest_image.S to its sources. */
#include "fabtune_mmio.h"
#include "fabtune_selftest.h"

#include "xil_cache.h"
#include "xil_printf.h"

#ifndef FABTUNE_REGISTERS
#define FABTUNE_REGISTERS 0xA0000000u /* where vivado/system.tcl puts them */
#endif
#define POLLS 100000000u

/* selftest_image.S: room for the job, aligned, with its image at the beginning */
extern unsigned char selftest_memory[];

static void sync(void *context, int for_core) {
    (void)context;
    if (for_core)
        Xil_DCacheFlushRange((INTPTR)selftest_memory, fabtune_selftest.memory_size);
    else
        Xil_DCacheInvalidateRange((INTPTR)selftest_memory, fabtune_selftest.memory_size);
}

int main(void) {
    struct fabtune_report report;
    const struct fabtune_core core = fabtune_mmio((volatile void *)(UINTPTR)FABTUNE_REGISTERS, POLLS);
    const struct fabtune_selftest *test = &fabtune_selftest;
    const enum fabtune_result result =
        fabtune_selftest_run(&core, test, selftest_memory, (UINTPTR)selftest_memory, sync, &report);
    if (result == FABTUNE_DONE)
        xil_printf("self-test: all %d stages are right\r\n", (int)test->stage_count);
    else
        xil_printf("self-test: stage %d, %s: result %d, %s 0x%x, golden says 0x%x, error %d\r\n", (int)report.stage + 1,
                   report.stage < test->stage_count ? test->stages[report.stage].name : "signature", (int)result,
                   report.what ? report.what : "", (unsigned)report.found, (unsigned)report.expected,
                   (int)report.end.error);
    return result != FABTUNE_DONE;
}
