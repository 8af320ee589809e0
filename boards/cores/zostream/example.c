/* The example's commands of zostream. Registers, and what they mean, are in fabtune_zostream.h. */
#include "example_job.h"
#include "example.h"
#include "fabtune_zostream.h"

static enum fabtune_result run(const struct fabtune_core *core, enum fabtune_zostream_command command,
                               struct fabtune_end *end) {
    return fabtune_run(core, (uint32_t)command, FABTUNE_ZOSTREAM_CYCLES_LOW, end);
}

enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOSTREAM_PROGRAM, memory + EXAMPLE_PROGRAM);
    fabtune_set_address(core, FABTUNE_ZOSTREAM_WEIGHTS, memory + EXAMPLE_WEIGHTS); /* never written */
    fabtune_set(core, FABTUNE_ZOSTREAM_PROGRAM_BEATS, EXAMPLE_PROGRAM_BEATS);
#ifdef EXAMPLE_DELTAS /* the sum of the updates of an earlier run */
    const enum fabtune_result result = run(core, FABTUNE_ZOSTREAM_COMMAND_LOAD, end);
    if (result) return result;
    fabtune_set_address(core, FABTUNE_ZOSTREAM_DELTAS, memory + EXAMPLE_DELTAS);
    return run(core, FABTUNE_ZOSTREAM_COMMAND_LOAD_DELTAS, end);
#else
    return run(core, FABTUNE_ZOSTREAM_COMMAND_LOAD, end); /* all deltas are 0 */
#endif
}

enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOSTREAM_SAMPLES, memory + EXAMPLE_TEST_SAMPLES);
    fabtune_set_address(core, FABTUNE_ZOSTREAM_INDEX, memory + EXAMPLE_TEST_INDEX); /* places and tokens of the samples */
    fabtune_set_address(core, FABTUNE_ZOSTREAM_ORDER, memory + EXAMPLE_TEST_ORDER);
    fabtune_set_address(core, FABTUNE_ZOSTREAM_LOGITS, memory + EXAMPLE_LOGITS);
    fabtune_set(core, FABTUNE_ZOSTREAM_SAMPLE_COUNT, EXAMPLE_TEST_COUNT);
    fabtune_set(core, FABTUNE_ZOSTREAM_STEPS, EXAMPLE_TEST_STEPS);
    fabtune_set(core, FABTUNE_ZOSTREAM_BATCH, EXAMPLE_TEST_BATCH);
    fabtune_set(core, FABTUNE_ZOSTREAM_CACHED, 0); /* the whole network, from its samples on */
    return run(core, FABTUNE_ZOSTREAM_COMMAND_INFER, end);
}

#ifdef EXAMPLE_CACHE_ORDER
/* Compute what all samples have before the first tuned tensor. */
static enum fabtune_result fill_cache(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOSTREAM_CACHE, memory + EXAMPLE_TUNE_CACHE);
    fabtune_set_address(core, FABTUNE_ZOSTREAM_ORDER, memory + EXAMPLE_CACHE_ORDER);
    fabtune_set(core, FABTUNE_ZOSTREAM_STEPS, EXAMPLE_CACHE_STEPS);
    fabtune_set(core, FABTUNE_ZOSTREAM_BATCH, EXAMPLE_CACHE_BATCH);
    return run(core, FABTUNE_ZOSTREAM_COMMAND_CACHE, end);
}
#endif

enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOSTREAM_SAMPLES, memory + EXAMPLE_TUNE_SAMPLES);
    fabtune_set_address(core, FABTUNE_ZOSTREAM_INDEX, memory + EXAMPLE_TUNE_INDEX);
    fabtune_set(core, FABTUNE_ZOSTREAM_SAMPLE_COUNT, EXAMPLE_TUNE_COUNT);
#ifdef EXAMPLE_CACHE_ORDER
    const enum fabtune_result result = fill_cache(core, memory, end);
    if (result) return result;
#endif
    fabtune_set_address(core, FABTUNE_ZOSTREAM_ORDER, memory + EXAMPLE_TUNE_ORDER); /* with labels and rates */
    fabtune_set_address(core, FABTUNE_ZOSTREAM_STATE, memory + EXAMPLE_STATE);
    fabtune_set_address(core, FABTUNE_ZOSTREAM_RECORDS, memory + EXAMPLE_RECORDS);
    fabtune_set(core, FABTUNE_ZOSTREAM_STEPS, EXAMPLE_TUNE_STEPS);
    fabtune_set(core, FABTUNE_ZOSTREAM_BATCH, EXAMPLE_TUNE_BATCH);
    fabtune_set(core, FABTUNE_ZOSTREAM_POSITION, EXAMPLE_POSITION); /* that of the state */
    fabtune_set(core, FABTUNE_ZOSTREAM_EPS_SHIFT, EXAMPLE_EPS_SHIFT);
    fabtune_set(core, FABTUNE_ZOSTREAM_SHIFT, EXAMPLE_SHIFT);
    fabtune_set(core, FABTUNE_ZOSTREAM_P1, 1); /* one perturbation of the whole network a step */
    fabtune_set(core, FABTUNE_ZOSTREAM_P2, 1);
    fabtune_set(core, FABTUNE_ZOSTREAM_GAP, EXAMPLE_GAP);
    fabtune_set(core, FABTUNE_ZOSTREAM_SCALARS, 0);
#ifdef EXAMPLE_CACHE_ORDER
    fabtune_set(core, FABTUNE_ZOSTREAM_CACHED, 1); /* steps begin with what the cache has */
#else
    fabtune_set(core, FABTUNE_ZOSTREAM_CACHED, 0);
#endif
    return run(core, FABTUNE_ZOSTREAM_COMMAND_TRAIN, end);
}
