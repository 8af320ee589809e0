/* The driver's self-test with the core of pipe.h. Memory is a file that both map. Arguments: memory file, its address for
 * the core, "polling", "timed" (with a time limit of 10 s), "interrupt", "silent" (it never comes) or "uio",
 * polls. */
#define _XOPEN_SOURCE 700

#include "fabtune_selftest.h"
#include "fabtune_uio.h"
#include "pipe.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void pipe_sync(void *context, int for_core) {
    (void)context;
    printf("sync %d\n", for_core);
    answer();
}

/* Mode "uio": each access goes through the functions of fabtune_uio.c too. Registers are a file that it maps, which holds
 * the core's value for a read and is looked at behind a write; the device is one end of a pair of sockets. */
static int registers, line[2];

static void must(int right) {
    if (!right) exit(99);
}

static uint32_t uio_read(void *context, uint32_t offset) {
    const uint32_t value = pipe_read(NULL, offset);
    must(pwrite(registers, &value, sizeof value, (off_t)offset) == (ssize_t)sizeof value);
    return ((struct fabtune_uio *)context)->core.read(context, offset);
}

static void uio_write(void *context, uint32_t offset, uint32_t value) {
    ((struct fabtune_uio *)context)->core.write(context, offset, value);
    must(pread(registers, &value, sizeof value, (off_t)offset) == (ssize_t)sizeof value);
    pipe_write(NULL, offset, value);
}

/* As the kernel does it: a read gives the number of interrupts so far; a 1 has to be written for the next one. */
static int uio_wait(void *context) {
    static uint32_t interrupts = 0;
    uint32_t enable = 0;
    must(pipe_wait(NULL) == 0);
    ++interrupts;
    must(send(line[1], &interrupts, sizeof interrupts, 0) == (ssize_t)sizeof interrupts);
    const int result = ((struct fabtune_uio *)context)->core.wait(context);
    must(recv(line[1], &enable, sizeof enable, MSG_DONTWAIT) == (ssize_t)sizeof enable && enable == 1);
    return result;
}

static int no_interrupt(void *context) {
    (void)context;
    return FABTUNE_WAITING;
}

static void open_uio(struct fabtune_uio *uio, struct fabtune_core *core) {
    char path[32];
    FILE *file = tmpfile();
    must(file && socketpair(AF_UNIX, SOCK_STREAM, 0, line) == 0);
    registers = fileno(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", registers);
    must(ftruncate(registers, 4096) == 0 && fabtune_uio_open(uio, path, 0) == 0);
    must(uio->core.wait != NULL && dup2(line[0], uio->device) == uio->device);
    core->read = uio_read, core->write = uio_write, core->wait = uio_wait, core->context = uio;
}

int main(int count, char **arguments) {
    if (count != 5) return 99;
    const int file = open(arguments[1], O_RDWR);
    const size_t size = fabtune_selftest.memory_size;
    unsigned char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || memory == MAP_FAILED) return 99;
    struct fabtune_core core = {pipe_read, pipe_write, NULL, NULL, (uint32_t)strtoul(arguments[4], NULL, 0), pipe_now, 0};
    if (!strcmp(arguments[3], "interrupt")) core.wait = pipe_wait;
    if (!strcmp(arguments[3], "silent")) core.wait = no_interrupt;
    if (!strcmp(arguments[3], "timed")) core.limit = 10000u;
    struct fabtune_uio uio;
    const int through_uio = !strcmp(arguments[3], "uio");
    if (through_uio) open_uio(&uio, &core);
    struct fabtune_report report;
    const struct fabtune_host host = {pipe_sync, pipe_print};
    const enum fabtune_result result =
        fabtune_selftest_run(&core, &fabtune_selftest, memory, strtoull(arguments[2], NULL, 0), &host, &report);
    printf("result %d %zu %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %s\n", (int)result, report.stage,
           report.end.error, report.end.address, report.end.cycles, report.hertz, report.what ? report.what : "-");
    if (through_uio) fabtune_uio_close(&uio);
    munmap(memory, size);
    return (int)fabtune_exit_status(result);
}
