/* Tunes a network on a core, and classifies held-out samples before and after. example.bin is the initial memory;
 * example_job.h has the addresses and golden's results. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "fabtune.h"
#include "fabtune_text.h"

#include <stddef.h>

/* The commands, in the core's example_*.c; `memory` is the core's address of the job's memory. */
enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);

/* Infer, tune and infer again; print each part at its begin and end, and finally the result.
 *
 * memory, address: the job's memory for the program and for the core, with example.bin at its beginning.
 * Returns FABTUNE_DIFFERENT if the core's logits differ from golden's. */
enum fabtune_result example_run(const struct fabtune_core *core, const volatile void *memory, uint64_t address,
                                const struct fabtune_host *host);

#endif /* EXAMPLE_H */
