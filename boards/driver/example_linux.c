/* Example on Linux:  example /dev/uio4 udmabuf0 digits.bin  (status 0: the accuracies are golden's). */
#include "digits.h"
#include "example.h"
#include "fabtune_uio.h"

#include <stdio.h>

static int complain(const char *what) {
    perror(what);
    return 2;
}

int main(int count, char **arguments) {
    struct fabtune_uio uio;
    struct fabtune_buffer buffer;
    char line[EXAMPLE_LINE];
    if (count != 4) {
        fprintf(stderr, "usage: %s /dev/uioN UDMABUF digits.bin\n", arguments[0]);
        return 2;
    }
    if (fabtune_uio_open(&uio, arguments[1], 0)) return complain(arguments[1]);
    if (fabtune_buffer_open(&buffer, arguments[2])) return complain(arguments[2]);
    if (buffer.size < DIGITS_MEMORY_SIZE) {
        fprintf(stderr, "%s has %zu bytes: the example needs %u\n", arguments[2], buffer.size, DIGITS_MEMORY_SIZE);
        return 2;
    }
    FILE *image = fopen(arguments[3], "rb");
    if (!image) return complain(arguments[3]);
    if (fread(buffer.bytes, 1, DIGITS_IMAGE_SIZE, image) != DIGITS_IMAGE_SIZE) {
        fprintf(stderr, "%s is not the file that belongs to this program: it is too short\n", arguments[3]);
        return 2;
    }
    fclose(image);
    const enum fabtune_result result = example_run(&uio.core, buffer.bytes, buffer.address, NULL, line);
    printf("example: %s\n", line);
    fabtune_buffer_close(&buffer);
    fabtune_uio_close(&uio);
    return result != FABTUNE_DONE;
}
