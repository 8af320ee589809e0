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

/* Open a device such as "/dev/uio4"; commands end with the interrupt, or are polled if `polling` is not 0.
 * Returns 0, or -1 with errno set and nothing left open. */
int fabtune_uio_open(struct fabtune_uio *uio, const char *path, int polling);
void fabtune_uio_close(struct fabtune_uio *uio);

/* From here on a bus error ends the program with a line and exit status 3: missing registers, or a buffer mapped as a
 * device. */
void fabtune_bus_errors(void);

/* Memory shared by core and program: a u-dma-buf, by name ("udmabuf0"). */
struct fabtune_buffer {
    int device;
    unsigned char *bytes;
    size_t size;
    uint64_t address; /* for the core */
};

/* Open a buffer without processor caching, so that nothing has to be flushed. The buffer's sync_mode must be 2: with 1,
 * u-dma-buf's default, ARM64 maps the buffer as a device, and memset, memcpy and unaligned accesses end the program
 * with a bus error. Returns 0, or -1 with errno set. */
int fabtune_buffer_open(struct fabtune_buffer *buffer, const char *name);
void fabtune_buffer_close(struct fabtune_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif /* FABTUNE_UIO_H */
