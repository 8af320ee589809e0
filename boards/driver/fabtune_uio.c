#define _POSIX_C_SOURCE 200809L

#include "fabtune_uio.h"

#include "fabtune_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define REGISTERS 4096u
#define WAIT 100 /* longest wait for the interrupt, in milliseconds */

/* The processor does not order accesses to a buffer (memory) and to registers (a device). The program's writes must be
 * in the buffer when a register starts a command, and the buffer must not be read before the status. */
static inline void order(void) {
#if defined(__aarch64__)
    __asm__ volatile("dsb sy" ::: "memory");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

static uint32_t uio_read(void *context, uint32_t offset) {
    const struct fabtune_uio *uio = context;
    const uint32_t value = *(volatile uint32_t *)((volatile unsigned char *)uio->registers + offset);
    order();
    return value;
}

static void uio_write(void *context, uint32_t offset, uint32_t value) {
    const struct fabtune_uio *uio = context;
    order();
    *(volatile uint32_t *)((volatile unsigned char *)uio->registers + offset) = value;
}

/* The interrupt stays high until the driver clears it in the core; Linux masks it after each one. */
static int uio_wait(void *context) {
    const struct fabtune_uio *uio = context;
    struct pollfd line = {uio->device, POLLIN, 0};
    uint32_t enable = 1, count;
    if (write(uio->device, &enable, sizeof enable) != (ssize_t)sizeof enable) return -1;
    const int ready = poll(&line, 1, WAIT);
    if (ready <= 0) return !ready || errno == EINTR ? FABTUNE_WAITING : -1;
    return read(uio->device, &count, sizeof count) == (ssize_t)sizeof count ? 0 : -1;
}

static uint64_t uio_now(void *context) {
    struct timespec time;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void bus_error(int signal) {
    static const char line[] = "bus error: the registers do not answer, as no bitstream is loaded or its clock is off, "
                               "or the buffer's sync_mode is not 2\n";
    (void)signal;
    if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(FABTUNE_STATUS_NO_ANSWER);
    _exit(FABTUNE_STATUS_NO_ANSWER);
}

void fabtune_bus_errors(void) {
    struct sigaction action = {0};
    action.sa_handler = bus_error;
    sigaction(SIGBUS, &action, NULL);
}

int fabtune_uio_open(struct fabtune_uio *uio, const char *path, int polling) {
    const struct fabtune_core core = {uio_read, uio_write, polling ? NULL : uio_wait, uio, 0, uio_now, 0};
    uio->device = open(path, O_RDWR | O_CLOEXEC);
    if (uio->device < 0) return -1;
    uio->size = REGISTERS;
    uio->registers = mmap(NULL, uio->size, PROT_READ | PROT_WRITE, MAP_SHARED, uio->device, 0);
    if (uio->registers == MAP_FAILED) {
        const int problem = errno;
        close(uio->device);
        errno = problem;
        return -1;
    }
    uio->core = core;
    return 0;
}

void fabtune_uio_close(struct fabtune_uio *uio) {
    munmap(uio->registers, uio->size);
    close(uio->device);
}

/* A number in a file of u-dma-buf. */
static int attribute(const char *name, const char *which, unsigned long long *value) {
    char path[256];
    FILE *file;
    int found;
    if (snprintf(path, sizeof path, "/sys/class/u-dma-buf/%s/%s", name, which) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!(file = fopen(path, "r"))) return -1;
    found = fscanf(file, "%lli", (long long *)value);
    fclose(file);
    if (found == 1) return 0;
    errno = EINVAL;
    return -1;
}

int fabtune_buffer_open(struct fabtune_buffer *buffer, const char *name) {
    char path[256];
    unsigned long long size, address;
    void *mapped;
    if (attribute(name, "size", &size) || attribute(name, "phys_addr", &address)) return -1;
    if (snprintf(path, sizeof path, "/dev/%s", name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    buffer->device = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
    if (buffer->device < 0) return -1;
    mapped = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->device, 0);
    if (mapped == MAP_FAILED) {
        const int problem = errno;
        close(buffer->device);
        errno = problem;
        return -1;
    }
    buffer->bytes = mapped;
    buffer->size = (size_t)size;
    buffer->address = address;
    return 0;
}

void fabtune_buffer_close(struct fabtune_buffer *buffer) {
    munmap(buffer->bytes, buffer->size);
    close(buffer->device);
}
