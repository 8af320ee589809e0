/* Registers at a mapped address: bare metal, or any other mapping. */
#ifndef FABTUNE_MMIO_H
#define FABTUNE_MMIO_H

#include "fabtune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Make a core whose status is polled, with its registers at `registers` (XPAR_..._BASEADDR of a bare-metal program). Its
 * `now` is NULL: programs without an operating system have no common clock. */
struct fabtune_core fabtune_mmio(volatile void *registers, uint32_t polls);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_MMIO_H */
