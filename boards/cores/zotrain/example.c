/* The example's commands of zotrain. Registers, and what they mean, are in fabtune_zotrain.h. */
#include "example_job.h"
#include "example.h"
#include "fabtune_zotrain.h"

static enum fabtune_result run(const struct fabtune_core *core, enum fabtune_zotrain_command command,
                               struct fabtune_end *end) {
    return fabtune_run(core, (uint32_t)command, FABTUNE_ZOTRAIN_CYCLES_LOW, end);
}

enum fabtune_result example_load(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOTRAIN_PARAMETERS, memory + EXAMPLE_PARAMETERS);
    return run(core, FABTUNE_ZOTRAIN_COMMAND_LOAD, end);
}

enum fabtune_result example_infer(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOTRAIN_SAMPLES, memory + EXAMPLE_TEST_SAMPLES);
    fabtune_set_address(core, FABTUNE_ZOTRAIN_ORDER, memory + EXAMPLE_TEST_ORDER);
    fabtune_set_address(core, FABTUNE_ZOTRAIN_LOGITS, memory + EXAMPLE_LOGITS);
    fabtune_set(core, FABTUNE_ZOTRAIN_SAMPLE_COUNT, EXAMPLE_TEST_COUNT);
    fabtune_set(core, FABTUNE_ZOTRAIN_STEPS, EXAMPLE_TEST_STEPS);
    fabtune_set(core, FABTUNE_ZOTRAIN_BATCH, EXAMPLE_TEST_BATCH);
    return run(core, FABTUNE_ZOTRAIN_COMMAND_INFER, end);
}

enum fabtune_result example_tune(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end) {
    fabtune_set_address(core, FABTUNE_ZOTRAIN_SAMPLES, memory + EXAMPLE_TUNE_SAMPLES);
    fabtune_set_address(core, FABTUNE_ZOTRAIN_ORDER, memory + EXAMPLE_TUNE_ORDER); /* with labels and rates */
    fabtune_set_address(core, FABTUNE_ZOTRAIN_STATE, memory + EXAMPLE_STATE);
    fabtune_set_address(core, FABTUNE_ZOTRAIN_RECORDS, memory + EXAMPLE_RECORDS);
    fabtune_set(core, FABTUNE_ZOTRAIN_SAMPLE_COUNT, EXAMPLE_TUNE_COUNT);
    fabtune_set(core, FABTUNE_ZOTRAIN_STEPS, EXAMPLE_TUNE_STEPS);
    fabtune_set(core, FABTUNE_ZOTRAIN_BATCH, EXAMPLE_TUNE_BATCH);
    fabtune_set(core, FABTUNE_ZOTRAIN_POSITION, EXAMPLE_POSITION); /* that of the state */
    fabtune_set(core, FABTUNE_ZOTRAIN_EPS_SHIFT, EXAMPLE_EPS_SHIFT);
    fabtune_set(core, FABTUNE_ZOTRAIN_SHIFT, EXAMPLE_SHIFT);
    fabtune_set(core, FABTUNE_ZOTRAIN_CUT, 0); /* one perturbation of the whole network a step */
    fabtune_set(core, FABTUNE_ZOTRAIN_P1, 1);
    fabtune_set(core, FABTUNE_ZOTRAIN_P2, 1);
    fabtune_set(core, FABTUNE_ZOTRAIN_GAP, EXAMPLE_GAP);
    fabtune_set(core, FABTUNE_ZOTRAIN_SCALARS, 0);
    return run(core, FABTUNE_ZOTRAIN_COMMAND_TRAIN, end);
}
