/* Registers at an address that the processor maps: bare metal, or any mapping of one's own. */
#ifndef FABTUNE_MMIO_H
#define FABTUNE_MMIO_H

#include "fabtune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Make a core whose status is polled, with its registers at `registers` (XPAR_..._BASEADDR of a bare-metal program). Its
 * `now` is NULL: there is no clock that every program without an operating system has. */
struct fabtune_core fabtune_mmio(volatile void *registers, uint32_t polls);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_MMIO_H */
