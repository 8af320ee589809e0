/* Example on Linux:  example [--poll] [--seconds N] /dev/uio4 udmabuf0 example.bin  (exit statuses: fabtune_text.h) */
#include "example_job.h"
#include "example.h"
#include "fabtune_options.h"
#include "fabtune_uio.h"

#include <stdio.h>

#define LIMIT 60000u

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
    const struct fabtune_host host = {NULL, print};
    if (fabtune_options_read(&options, count, arguments, "/dev/uioN UDMABUF example.bin")) return FABTUNE_STATUS_USAGE;
    const char *device = options.words[0], *memory = options.words[1], *file = options.words[2];
    if (fabtune_uio_open(&uio, device, options.poll)) return complain(device);
    uio.core.limit = options.limit;
    if (fabtune_buffer_open(&buffer, memory)) return complain(memory);
    if (buffer.size < EXAMPLE_MEMORY_SIZE) {
        fprintf(stderr, "%s has %zu bytes: the example needs %u\n", memory, buffer.size, EXAMPLE_MEMORY_SIZE);
        return FABTUNE_STATUS_USAGE;
    }
    fabtune_bus_errors();
    FILE *image = fopen(file, "rb");
    if (!image) return complain(file);
    if (fread(buffer.bytes, 1, EXAMPLE_IMAGE_SIZE, image) != EXAMPLE_IMAGE_SIZE) {
        fprintf(stderr, "%s is not the file that belongs to this program: it is too short\n", file);
        return FABTUNE_STATUS_USAGE;
    }
    fclose(image);
    const enum fabtune_result result = example_run(&uio.core, buffer.bytes, buffer.address, &host);
    fabtune_buffer_close(&buffer);
    fabtune_uio_close(&uio);
    return (int)fabtune_exit_status(result);
}
