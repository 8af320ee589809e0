/* Self-test on Linux:  selftest [--poll] [--seconds N] /dev/uio4 udmabuf0 selftest.bin  (exit statuses: fabtune_text.h) */
#include "fabtune_options.h"
#include "fabtune_selftest.h"
#include "fabtune_uio.h"

#include <stdio.h>
#include <string.h>

#define LIMIT 10000u

static int complain(const char *what) {
    perror(what);
    return FABTUNE_STATUS_USAGE;
}

/* Each line at once: the program may end with the next access. */
static void print(const char *line) {
    puts(line);
    fflush(stdout);
}

int main(int count, char **arguments) {
    struct fabtune_options options = {0, LIMIT, {NULL}};
    struct fabtune_uio uio;
    struct fabtune_buffer buffer;
    const struct fabtune_selftest *test = &fabtune_selftest;
    const struct fabtune_host host = {NULL, print};
    if (fabtune_options_read(&options, count, arguments, "/dev/uioN UDMABUF selftest.bin")) return FABTUNE_STATUS_USAGE;
    const char *device = options.words[0], *memory = options.words[1], *file = options.words[2];
    if (fabtune_uio_open(&uio, device, options.poll)) return complain(device);
    uio.core.limit = options.limit;
    if (fabtune_buffer_open(&buffer, memory)) return complain(memory);
    if (buffer.size < test->memory_size) {
        fprintf(stderr, "%s has %zu bytes: the self-test needs %zu\n", memory, buffer.size, test->memory_size);
        return FABTUNE_STATUS_USAGE;
    }
    fabtune_bus_errors();
    memset(buffer.bytes, 0, test->memory_size);
    FILE *image = fopen(file, "rb");
    if (!image) return complain(file);
    if (fread(buffer.bytes, 1, test->image_size, image) != test->image_size) {
        fprintf(stderr, "%s is not the file that belongs to this program: it is too short\n", file);
        return FABTUNE_STATUS_USAGE;
    }
    fclose(image);
    const enum fabtune_result result = fabtune_selftest_run(&uio.core, test, buffer.bytes, buffer.address, &host, NULL);
    fabtune_buffer_close(&buffer);
    fabtune_uio_close(&uio);
    return (int)fabtune_exit_status(result);
}
