/* Example without an operating system, for a Vitis application of the standalone domain; see the package's README. It
 * takes no arguments: define FABTUNE_REGISTERS and FABTUNE_SECONDS instead. */
#include "digits.h"
#include "example.h"
#include "fabtune_standalone.h"

#include "xil_cache.h"

#ifndef FABTUNE_SECONDS
#define FABTUNE_SECONDS 60u /* that a command may take */
#endif

/* digits_image.S: room for the job, aligned, with digits.bin at the beginning */
extern unsigned char digits_memory[];

static void sync(void *context, int for_core) {
    (void)context;
    if (for_core)
        Xil_DCacheFlushRange((INTPTR)digits_memory, (INTPTR)DIGITS_MEMORY_SIZE);
    else
        Xil_DCacheInvalidateRange((INTPTR)digits_memory, (INTPTR)DIGITS_MEMORY_SIZE);
}

int main(void) {
    const struct fabtune_core core = standalone_core(FABTUNE_SECONDS);
    const struct fabtune_host host = {sync, standalone_print};
    return (int)fabtune_exit_status(example_run(&core, digits_memory, (UINTPTR)digits_memory, &host));
}
