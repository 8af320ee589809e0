/* Tunes the digits on a core: a network has learnt them as they are scanned, the camera has moved, and the core tunes the
 * network on such images. digits.bin is what is in memory before, digits.h says what is where, and what golden says. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "fabtune.h"

#include <stddef.h>

#define EXAMPLE_LINE 120

/* The commands, in example_CORE.c of the core; `memory` is the core's address of the job's memory. */
enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);

/* Infer, tune and infer again; write what came of it to `line`, of EXAMPLE_LINE characters.
 *
 * memory, address: the job's memory for the program and for the core, with digits.bin at its beginning.
 * sync: NULL, or what makes memory the same for both: called with 1 before the core reads it and with 0 after it wrote.
 * Returns FABTUNE_DIFFERENT where the core classifies another number of images correctly than golden. */
enum fabtune_result example_run(const struct fabtune_core *core, const volatile void *memory, uint64_t address,
                                void (*sync)(void *context, int for_core), char *line);

#endif /* EXAMPLE_H */
