/* Linux: registers and interrupt of a core through /dev/uioN (generic-uio), memory through u-dma-buf. */
#ifndef FABTUNE_UIO_H
#define FABTUNE_UIO_H

#include "fabtune.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fabtune_uio {
    struct fabtune_core core;
    int device;
    void *registers;
    size_t size;
};

/* Open a device such as "/dev/uio4"; commands end with its interrupt, or are polled where `polling` is not 0.
 * Returns 0, or -1 with errno set; then nothing is left open. */
int fabtune_uio_open(struct fabtune_uio *uio, const char *path, int polling);
void fabtune_uio_close(struct fabtune_uio *uio);

/* From here on end the program with a line and exit status 3 where an access is answered with a bus error: by registers
 * that are not there, or by a buffer that is mapped as a device. */
void fabtune_bus_errors(void);

/* Memory that core and program share: a u-dma-buf, by its name ("udmabuf0"). */
struct fabtune_buffer {
    int device;
    unsigned char *bytes;
    size_t size;
    uint64_t address; /* for the core */
};

/* Open a buffer, not cached by the processor, so that nothing has to be flushed. Its sync_mode has to be 2: with 1,
 * u-dma-buf's default, it is mapped as a device on ARM64, where memset, memcpy and accesses that are not aligned end the
 * program with a bus error. Returns 0, or -1 with errno set. */
int fabtune_buffer_open(struct fabtune_buffer *buffer, const char *name);
void fabtune_buffer_close(struct fabtune_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_UIO_H */
