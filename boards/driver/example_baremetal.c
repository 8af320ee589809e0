/* Example without an operating system, for a Vitis application of the standalone domain; see the package's README. */
#include "digits.h"
#include "example.h"
#include "fabtune_mmio.h"

#include "xil_cache.h"
#include "xil_printf.h"

#ifndef FABTUNE_REGISTERS
#define FABTUNE_REGISTERS 0xA0000000u /* where vivado/system.tcl puts them */
#endif
#define POLLS 1000000000u

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
    char line[EXAMPLE_LINE];
    const struct fabtune_core core = fabtune_mmio((volatile void *)(UINTPTR)FABTUNE_REGISTERS, POLLS);
    const enum fabtune_result result = example_run(&core, digits_memory, (UINTPTR)digits_memory, sync, line);
    xil_printf("example: %s\r\n", line);
    return result != FABTUNE_DONE;
}
