#include "fabtune_selftest.h"

#include <inttypes.h>
#include <stdio.h>

/* A self-test that is running. */
struct run {
    const struct fabtune_core *core;
    const struct fabtune_selftest *test;
    const struct fabtune_host *host;
    const volatile unsigned char *memory;
    uint64_t address;
    struct fabtune_report report;
};

static uint32_t crc32(const volatile unsigned char *bytes, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t at = 0; at < size; ++at) {
        crc ^= bytes[at];
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

static int all_zero(const volatile unsigned char *bytes, size_t size) {
    for (size_t at = 0; at < size; ++at)
        if (bytes[at]) return 0;
    return 1;
}

static void print(const struct run *run, const char *part, const char *said) {
    char line[FABTUNE_LINE + 120];
    snprintf(line, sizeof line, "%s: %s", part, said);
    if (run->host->print) run->host->print(line);
}

/* Compare what a stage left, up to the first difference, and describe that. */
static enum fabtune_result compare(struct run *run, const struct fabtune_stage *stage, char said[FABTUNE_LINE]) {
    for (size_t at = 0; at < stage->expectation_count; ++at) {
        const struct fabtune_expectation *one = &stage->expectations[at];
        const uint32_t found = one->is_memory ? crc32(run->memory + one->offset, one->size)
                                              : run->core->read(run->core->context, one->offset);
        if (found == one->expected) continue;
        run->report.what = one->what, run->report.expected = one->expected, run->report.found = found;
        if (one->is_memory)
            snprintf(said, FABTUNE_LINE, "wrong, %s have CRC-32 0x%08" PRIx32 ", golden says 0x%08" PRIx32 "%s", one->what,
                     found, one->expected, all_zero(run->memory + one->offset, one->size) ? ": all bytes are 0" : "");
        else
            snprintf(said, FABTUNE_LINE, "wrong, %s is %" PRIu32 ", golden says %" PRIu32, one->what, found, one->expected);
        return FABTUNE_DIFFERENT;
    }
    return FABTUNE_DONE;
}

/* Run the command of a stage, compare what it left, and describe how that ended. */
static enum fabtune_result run_stage(struct run *run, const struct fabtune_stage *stage, char said[FABTUNE_LINE]) {
    const struct fabtune_core *core = run->core;
    enum fabtune_result result;
    for (size_t at = 0; at < stage->setting_count; ++at) {
        const struct fabtune_setting *one = &stage->settings[at];
        if (one->is_address)
            fabtune_set_address(core, one->offset, run->address + one->value);
        else
            fabtune_set(core, one->offset, one->value);
    }
    if (run->host->sync) run->host->sync(core->context, 1);
    result = fabtune_run(core, stage->command, run->test->cycles_low, &run->report.end);
    if (run->host->sync) run->host->sync(core->context, 0);
    fabtune_describe(said, result, &run->report.end, &run->test->errors);
    return result ? result : compare(run, stage, said);
}

static enum fabtune_result try_registers(struct run *run) {
    char said[FABTUNE_LINE];
    uint32_t found;
    print(run, "registers", "begin");
    const enum fabtune_result result = fabtune_answers(run->core, run->test->signature, run->test->setting, &found);
    fabtune_describe_answer(said, result, found, run->test->signature);
    print(run, "registers", said);
    return result;
}

/* Let the core copy a part of the memory: both the core and the program have to see the same bytes. */
static enum fabtune_result try_memory(struct run *run) {
    char said[FABTUNE_LINE], line[FABTUNE_LINE + 80];
    enum fabtune_result result = FABTUNE_DONE;
    snprintf(said, sizeof said, "begins, %zu bytes at 0x%" PRIx64, run->test->memory_size, run->address);
    print(run, "memory", said);
    for (size_t at = 0; !result && at < run->test->copy_count; ++at) {
        result = run_stage(run, &run->test->copy[at], said);
        snprintf(line, sizeof line, "memory, %s", run->test->copy[at].name);
        print(run, line, said);
    }
    if (result == FABTUNE_DIFFERENT || result == FABTUNE_FAILED) {
        print(run, "memory", "the core does not read or write this buffer as the program does: its address, or a cache");
        return FABTUNE_NO_MEMORY;
    }
    return result;
}

static enum fabtune_result try_stages(struct run *run) {
    char said[FABTUNE_LINE], line[FABTUNE_LINE];
    enum fabtune_result result;
    for (size_t *number = &run->report.stage; *number < run->test->stage_count; ++*number) {
        const struct fabtune_stage *stage = &run->test->stages[*number];
        snprintf(line, sizeof line, "stage %zu of %zu, %s", *number + 1, run->test->stage_count, stage->name);
        print(run, line, "begins");
        result = run_stage(run, stage, said);
        print(run, line, said);
        if (result) return result;
    }
    return FABTUNE_DONE;
}

enum fabtune_result fabtune_selftest_run(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                         const volatile unsigned char *memory, uint64_t address,
                                         const struct fabtune_host *host, struct fabtune_report *report) {
    struct run run = {core, test, host, memory, address, {0}};
    char said[FABTUNE_LINE], line[FABTUNE_LINE + 80];
    fabtune_describe_waiting(said, core);
    snprintf(line, sizeof line, "%s, signature 0x%08" PRIx32 ", %s", test->name, test->signature, said);
    print(&run, "self-test", line);
    enum fabtune_result result = try_registers(&run);
    if (!result) result = try_memory(&run);
    if (!result) result = try_stages(&run);
    if (result)
        snprintf(line, sizeof line, "wrong, exit status %d", (int)fabtune_exit_status(result));
    else
        snprintf(line, sizeof line, "all %zu stages are right", test->stage_count);
    print(&run, "self-test", line);
    if (report) *report = run.report;
    return result;
}
