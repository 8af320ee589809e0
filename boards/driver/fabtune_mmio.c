#include "fabtune_mmio.h"

#include <stddef.h>

static uint32_t mmio_read(void *context, uint32_t offset) {
    return *(volatile uint32_t *)((volatile unsigned char *)context + offset);
}

static void mmio_write(void *context, uint32_t offset, uint32_t value) {
    *(volatile uint32_t *)((volatile unsigned char *)context + offset) = value;
}

struct fabtune_core fabtune_mmio(volatile void *registers, uint32_t polls) {
    struct fabtune_core core = {mmio_read, mmio_write, NULL, (void *)registers, polls, NULL, 0};
    return core;
}
