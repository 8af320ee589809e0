/* The example's commands of instantft. Registers, and what they mean, are in fabtune_instantft.h. */
#include "example_job.h"
#include "example.h"
#include "fabtune_instantft.h"

static enum fabtune_result run(const struct fabtune_core *core, enum fabtune_instantft_command command,
                               struct fabtune_end *end) {
    return fabtune_run(core, (uint32_t)command, FABTUNE_INSTANTFT_CYCLES_LOW, end);
}

enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_INSTANTFT_PARAMETERS, memory + EXAMPLE_PARAMETERS);
    fabtune_set_address(core, FABTUNE_INSTANTFT_ADAPTERS, memory + EXAMPLE_ADAPTERS);
    enum fabtune_result result = run(core, FABTUNE_INSTANTFT_COMMAND_LOAD, end);
    if (!result) result = run(core, FABTUNE_INSTANTFT_COMMAND_LOAD_ADAPTERS, end);
    return result;
}

enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_INSTANTFT_SAMPLES, memory + EXAMPLE_TEST_SAMPLES);
    fabtune_set_address(core, FABTUNE_INSTANTFT_ORDER, memory + EXAMPLE_TEST_ORDER);
    fabtune_set_address(core, FABTUNE_INSTANTFT_CACHE, memory + EXAMPLE_SCRATCH);
    fabtune_set_address(core, FABTUNE_INSTANTFT_LOGITS, memory + EXAMPLE_LOGITS);
    fabtune_set(core, FABTUNE_INSTANTFT_SAMPLES_PER_EPOCH, EXAMPLE_TEST_COUNT);
    fabtune_set(core, FABTUNE_INSTANTFT_EPOCHS, 1);
    fabtune_set(core, FABTUNE_INSTANTFT_BATCH, EXAMPLE_TEST_BATCH);
    fabtune_set(core, FABTUNE_INSTANTFT_MODE, 0);
    return run(core, FABTUNE_INSTANTFT_COMMAND_INFER, end);
}

enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_INSTANTFT_SAMPLES, memory + EXAMPLE_TUNE_SAMPLES);
    fabtune_set_address(core, FABTUNE_INSTANTFT_ORDER, memory + EXAMPLE_TUNE_ORDER); /* with labels */
    fabtune_set_address(core, FABTUNE_INSTANTFT_CACHE, memory + EXAMPLE_CACHE);
    fabtune_set(core, FABTUNE_INSTANTFT_CACHE_ENTRIES, EXAMPLE_TUNE_COUNT);
    fabtune_set(core, FABTUNE_INSTANTFT_SAMPLES_PER_EPOCH, EXAMPLE_TUNE_COUNT);
    fabtune_set(core, FABTUNE_INSTANTFT_EPOCHS, EXAMPLE_EPOCHS);
    fabtune_set(core, FABTUNE_INSTANTFT_BATCH, EXAMPLE_TUNE_BATCH);
    fabtune_set(core, FABTUNE_INSTANTFT_RATE, EXAMPLE_RATE);
    fabtune_set(core, FABTUNE_INSTANTFT_MODE, EXAMPLE_MODE);
#ifdef FABTUNE_INSTANTFT_VALIDATION_SAMPLES
    fabtune_set(core, FABTUNE_INSTANTFT_VALIDATION_SAMPLES, 0);
    fabtune_set(core, FABTUNE_INSTANTFT_PATIENCE, 0);
#endif
    const enum fabtune_result result = run(core, FABTUNE_INSTANTFT_COMMAND_FORGET, end); /* records of other samples */
    return result ? result : run(core, FABTUNE_INSTANTFT_COMMAND_TUNE, end);
}
