/* fabtune_uio.h with the core of pipe.h. A buffer is a file that both map; where it is for the core is in the environment. */
#include "fabtune_uio.h"
#include "pipe.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int fabtune_uio_open(struct fabtune_uio *uio, const char *path, int polling) {
    (void)path;
    const struct fabtune_core core = {pipe_read, pipe_write, polling ? NULL : pipe_wait, uio, 0, pipe_now, 0};
    uio->core = core;
    return 0;
}

void fabtune_uio_close(struct fabtune_uio *uio) { (void)uio; }

void fabtune_bus_errors(void) {}

int fabtune_buffer_open(struct fabtune_buffer *buffer, const char *name) {
    struct stat file;
    buffer->device = open(name, O_RDWR);
    if (buffer->device < 0 || fstat(buffer->device, &file)) return -1;
    buffer->size = (size_t)file.st_size;
    buffer->bytes = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->device, 0);
    buffer->address = strtoull(getenv("BUFFER_ADDRESS"), NULL, 0);
    return buffer->bytes == MAP_FAILED ? -1 : 0;
}

void fabtune_buffer_close(struct fabtune_buffer *buffer) {
    munmap(buffer->bytes, buffer->size);
    close(buffer->device);
}
