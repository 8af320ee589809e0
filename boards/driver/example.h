/* Tunes a network on a core, and classifies held-out samples before and after it. example.bin is what is in memory before,
 * example_job.h says what is where, and what golden says. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "fabtune.h"
#include "fabtune_text.h"

#include <stddef.h>

/* The commands, in the example_*.c of the core; `memory` is the core's address of the job's memory. */
enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);

/* Infer, tune and infer again; print each part as it begins and ends, and last what came of it.
 *
 * memory, address: the job's memory for the program and for the core, with example.bin at its beginning.
 * Returns FABTUNE_DIFFERENT where the core has other logits than golden. */
enum fabtune_result example_run(const struct fabtune_core *core, const volatile void *memory, uint64_t address,
                                const struct fabtune_host *host);

#endif /* EXAMPLE_H */
