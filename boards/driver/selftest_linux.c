/* Self-test on Linux:  selftest /dev/uio4 udmabuf0 selftest.bin  (status 0: all bits are golden's). */
#include "fabtune_selftest.h"
#include "fabtune_uio.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int complain(const char *what) {
    perror(what);
    return 2;
}

int main(int count, char **arguments) {
    struct fabtune_uio uio;
    struct fabtune_buffer buffer;
    struct fabtune_report report;
    const struct fabtune_selftest *test = &fabtune_selftest;
    if (count != 4) {
        fprintf(stderr, "usage: %s /dev/uioN UDMABUF selftest.bin\n", arguments[0]);
        return 2;
    }
    if (fabtune_uio_open(&uio, arguments[1], 0)) return complain(arguments[1]);
    if (fabtune_buffer_open(&buffer, arguments[2])) return complain(arguments[2]);
    if (buffer.size < test->memory_size) {
        fprintf(stderr, "%s has %zu bytes: the self-test needs %zu\n", arguments[2], buffer.size, test->memory_size);
        return 2;
    }
    memset(buffer.bytes, 0, test->memory_size);
    FILE *image = fopen(arguments[3], "rb");
    if (!image) return complain(arguments[3]);
    if (fread(buffer.bytes, 1, test->image_size, image) != test->image_size) {
        fprintf(stderr, "%s is not the file that belongs to this program: it is too short\n", arguments[3]);
        return 2;
    }
    fclose(image);
    const enum fabtune_result result =
        fabtune_selftest_run(&uio.core, test, buffer.bytes, buffer.address, NULL, &report);
    if (report.hertz) printf("clock: %.3f MHz\n", report.hertz / 1e6);
    if (result == FABTUNE_DONE)
        printf("self-test: all %zu stages are right\n", test->stage_count);
    else if (result == FABTUNE_OTHER_CLOCK)
        fprintf(stderr, "self-test: all %zu stages are right, but the clock has %.3f MHz and not %.3f MHz\n",
                test->stage_count, report.hertz / 1e6, test->clock_hz / 1e6);
    else if (result == FABTUNE_OTHER_CORE)
        fprintf(stderr, "self-test: this is not the bitstream of 0x%08" PRIx32 "\n", test->signature);
    else if (result == FABTUNE_NOT_RESET)
        fprintf(stderr, "self-test: the core cannot be reset, as memory does not answer: load the bitstream again\n");
    else if (result == FABTUNE_DIFFERENT)
        fprintf(stderr, "self-test: stage %zu, %s: %s is 0x%08" PRIx32 ", golden says 0x%08" PRIx32 "\n",
                report.stage + 1, test->stages[report.stage].name, report.what, report.found, report.expected);
    else
        fprintf(stderr, "self-test: stage %zu, %s: result %d, error %" PRIu32 " at 0x%" PRIx64 "\n", report.stage + 1,
                test->stages[report.stage].name, (int)result, report.end.error, report.end.address);
    fabtune_buffer_close(&buffer);
    fabtune_uio_close(&uio);
    return result != FABTUNE_DONE;
}
