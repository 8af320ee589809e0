/* Self-test without an operating system, for a Vitis application of the standalone domain: add the files of this folder
 * and selftest_image.S to its sources. No arguments: define FABTUNE_REGISTERS and FABTUNE_SECONDS instead. */
#include "fabtune_selftest.h"
#include "fabtune_standalone.h"

#include "xil_cache.h"

#ifndef FABTUNE_SECONDS
#define FABTUNE_SECONDS 10u /* that a command may take */
#endif

/* selftest_image.S: aligned memory of the job, with the image at the beginning */
extern unsigned char selftest_memory[];

static void sync(void *context, int for_core) {
    const INTPTR size = (INTPTR)fabtune_selftest.memory_size;
    (void)context;
    if (for_core)
        Xil_DCacheFlushRange((INTPTR)selftest_memory, size);
    else
        Xil_DCacheInvalidateRange((INTPTR)selftest_memory, size);
}

int main(void) {
    const struct fabtune_core core = standalone_core(FABTUNE_SECONDS);
    const struct fabtune_host host = {sync, standalone_print};
    return (int)fabtune_exit_status(
        fabtune_selftest_run(&core, &fabtune_selftest, selftest_memory, (UINTPTR)selftest_memory, &host, NULL));
}
