/* Example without an operating system, for a Vitis application of the standalone domain; see the package's README. No
 * arguments: define FABTUNE_REGISTERS and FABTUNE_SECONDS instead. */
#include "example_job.h"
#include "example.h"
#include "fabtune_standalone.h"

#include "xil_cache.h"

#ifndef FABTUNE_SECONDS
#define FABTUNE_SECONDS 60u /* that a command may take */
#endif

/* example_image.S: aligned memory of the job, with example.bin at the beginning */
extern unsigned char example_memory[];

static void sync(void *context, int for_core) {
    (void)context;
    if (for_core)
        Xil_DCacheFlushRange((INTPTR)example_memory, (INTPTR)EXAMPLE_MEMORY_SIZE);
    else
        Xil_DCacheInvalidateRange((INTPTR)example_memory, (INTPTR)EXAMPLE_MEMORY_SIZE);
}

int main(void) {
    const struct fabtune_core core = standalone_core(FABTUNE_SECONDS);
    const struct fabtune_host host = {sync, standalone_print};
    return (int)fabtune_exit_status(example_run(&core, example_memory, (UINTPTR)example_memory, &host));
}
