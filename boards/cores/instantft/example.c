/* The example's commands of instantft. Registers, and what they mean, are in fabtune_core.h. */
#include "digits.h"
#include "example.h"
#include "fabtune_core.h"

static enum fabtune_result run(const struct fabtune_core *core, enum fabtune_core_command command,
                               struct fabtune_end *end) {
    return fabtune_run(core, (uint32_t)command, FABTUNE_CORE_CYCLES_LOW, end);
}

enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_CORE_PARAMETERS, memory + DIGITS_PARAMETERS);
    fabtune_set_address(core, FABTUNE_CORE_ADAPTERS, memory + DIGITS_ADAPTERS);
    enum fabtune_result result = run(core, FABTUNE_CORE_COMMAND_LOAD, end);
    if (!result) result = run(core, FABTUNE_CORE_COMMAND_LOAD_ADAPTERS, end);
    return result;
}

enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_CORE_SAMPLES, memory + DIGITS_TEST_SAMPLES);
    fabtune_set_address(core, FABTUNE_CORE_ORDER, memory + DIGITS_TEST_ORDER);
    fabtune_set_address(core, FABTUNE_CORE_CACHE, memory + DIGITS_SCRATCH);
    fabtune_set_address(core, FABTUNE_CORE_LOGITS, memory + DIGITS_LOGITS);
    fabtune_set(core, FABTUNE_CORE_SAMPLES_PER_EPOCH, DIGITS_TEST_COUNT);
    fabtune_set(core, FABTUNE_CORE_EPOCHS, 1);
    fabtune_set(core, FABTUNE_CORE_BATCH, DIGITS_TEST_BATCH);
    fabtune_set(core, FABTUNE_CORE_MODE, 0);
    return run(core, FABTUNE_CORE_COMMAND_INFER, end);
}

enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_CORE_SAMPLES, memory + DIGITS_TUNE_SAMPLES);
    fabtune_set_address(core, FABTUNE_CORE_ORDER, memory + DIGITS_TUNE_ORDER); /* with labels */
    fabtune_set_address(core, FABTUNE_CORE_CACHE, memory + DIGITS_CACHE);
    fabtune_set(core, FABTUNE_CORE_CACHE_ENTRIES, DIGITS_TUNE_COUNT);
    fabtune_set(core, FABTUNE_CORE_SAMPLES_PER_EPOCH, DIGITS_TUNE_COUNT);
    fabtune_set(core, FABTUNE_CORE_EPOCHS, DIGITS_EPOCHS);
    fabtune_set(core, FABTUNE_CORE_BATCH, DIGITS_TUNE_BATCH);
    fabtune_set(core, FABTUNE_CORE_RATE, DIGITS_RATE);
    fabtune_set(core, FABTUNE_CORE_MODE, DIGITS_MODE);
#ifdef FABTUNE_CORE_VALIDATION_SAMPLES
    fabtune_set(core, FABTUNE_CORE_VALIDATION_SAMPLES, 0);
    fabtune_set(core, FABTUNE_CORE_PATIENCE, 0);
#endif
    const enum fabtune_result result = run(core, FABTUNE_CORE_COMMAND_FORGET, end); /* records of other samples */
    return result ? result : run(core, FABTUNE_CORE_COMMAND_TUNE, end);
}
