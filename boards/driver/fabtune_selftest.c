#include "fabtune_selftest.h"

#include <inttypes.h>
#include <stdio.h>

/* A running self-test. */
struct run {
    const struct fabtune_core *core;
    const struct fabtune_selftest *test;
    const struct fabtune_host *host;
    const volatile unsigned char *memory;
    uint64_t address;
    const struct fabtune_stage *longest; /* of the commands since the last load */
    uint64_t most;                       /* its cycles */
    struct fabtune_report report;
};

/* Time of watching the clock: an error of 0.1 % or less with reads of 10 us. */
#ifndef FABTUNE_WATCHED_NS
#define FABTUNE_WATCHED_NS 20000000u
#endif

static int all_zero(const volatile unsigned char *bytes, size_t size) {
    for (size_t at = 0; at < size; ++at)
        if (bytes[at]) return 0;
    return 1;
}

static void print(const struct run *run, const char *part, const char *said) {
    char line[2 * FABTUNE_LINE + 120];
    snprintf(line, sizeof line, "%s: %s", part, said);
    if (run->host->print) run->host->print(line);
}

/* Compare the results of a stage up to the first difference, and describe the difference. */
static enum fabtune_result compare(struct run *run, const struct fabtune_stage *stage, char said[FABTUNE_LINE]) {
    for (size_t at = 0; at < stage->expectation_count; ++at) {
        const struct fabtune_expectation *one = &stage->expectations[at];
        const uint32_t found = one->is_memory ? fabtune_crc32(run->memory + one->offset, one->size)
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

static void set_all(const struct run *run, const struct fabtune_stage *stage) {
    for (size_t at = 0; at < stage->setting_count; ++at) {
        const struct fabtune_setting *one = &stage->settings[at];
        if (one->is_address)
            fabtune_set_address(run->core, one->offset, run->address + one->value);
        else
            fabtune_set(run->core, one->offset, one->value);
    }
}

/* Run the command of a stage, compare the results, and describe the end. */
static enum fabtune_result run_stage(struct run *run, const struct fabtune_stage *stage, char said[FABTUNE_LINE]) {
    const struct fabtune_core *core = run->core;
    enum fabtune_result result;
    set_all(run, stage);
    if (run->host->sync) run->host->sync(core->context, 1);
    result = fabtune_run(core, stage->command, run->test->cycles_low, &run->report.end);
    if (run->host->sync) run->host->sync(core->context, 0);
    fabtune_describe(said, result, &run->report.end, &run->test->errors);
    /* commands before a load may not run after the load: the network is another */
    const int loads = stage->command == run->test->stages[0].command;
    if (!result && (loads || run->report.end.cycles > run->most))
        run->most = run->report.end.cycles, run->longest = stage;
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

/* Let the core copy a part of the memory: core and program must see the same bytes. */
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

/* Measure the core's clock with the longest command that has run since the last load. */
static uint32_t measure(const struct run *run) {
    const struct fabtune_core *core = run->core;
    const uint32_t cycles_low = run->test->cycles_low;
    struct fabtune_rate rate = {0, 0};
    const uint64_t begun = core->now(core->context);
    while (rate.nanoseconds < FABTUNE_WATCHED_NS && core->now(core->context) - begun < 10u * FABTUNE_WATCHED_NS) {
        set_all(run, run->longest);
        if (fabtune_start(core, run->longest->command)) break;
        fabtune_watch(core, cycles_low, FABTUNE_WATCHED_NS, &rate);
        if (fabtune_finish(core, cycles_low, NULL)) break;
    }
    return fabtune_hertz(&rate);
}

/* Print the clock's rate, if measurable; compare with the package's rate, if the package has a rate. */
static enum fabtune_result try_clock(struct run *run) {
    char said[FABTUNE_LINE];
    const uint32_t expected = run->test->clock_hz;
    if (!run->core->now || !run->longest || !(run->report.hertz = measure(run))) return FABTUNE_DONE;
    const unsigned kilohertz = (run->report.hertz + 500u) / 1000u, wanted = (expected + 500u) / 1000u;
    const int differs = expected && fabtune_clock_differs(run->report.hertz, expected);
    snprintf(said, sizeof said, differs ? "wrong, %u.%03u MHz instead of %u.%03u MHz" : "right, %u.%03u MHz",
             kilohertz / 1000u, kilohertz % 1000u, wanted / 1000u, wanted % 1000u);
    print(run, "clock", said);
    return differs ? FABTUNE_OTHER_CLOCK : FABTUNE_DONE;
}

enum fabtune_result fabtune_selftest_run(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                         const volatile unsigned char *memory, uint64_t address,
                                         const struct fabtune_host *host, struct fabtune_report *report) {
    struct run run = {core, test, host, memory, address, NULL, 0, {0}};
    char said[FABTUNE_LINE], line[FABTUNE_LINE + 80];
    fabtune_describe_waiting(said, core);
    snprintf(line, sizeof line, "%s, signature 0x%08" PRIx32 ", %s", test->name, test->signature, said);
    print(&run, "self-test", line);
    enum fabtune_result result = try_registers(&run);
    if (!result) result = try_memory(&run);
    if (!result) {
        result = try_stages(&run);
        /* after a command without an end the core is busy, and the command's line has the rate */
        const enum fabtune_result clock = result == FABTUNE_HUNG ? FABTUNE_DONE : try_clock(&run);
        if (!result) result = clock;
    }
    if (result)
        snprintf(line, sizeof line, "wrong, exit status %d", (int)fabtune_exit_status(result));
    else
        snprintf(line, sizeof line, "all %zu stages are right", test->stage_count);
    print(&run, "self-test", line);
    if (report) *report = run.report;
    return result;
}
