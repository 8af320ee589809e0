#include "fabtune_selftest.h"

static uint32_t crc32(const volatile unsigned char *bytes, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t at = 0; at < size; ++at) {
        crc ^= bytes[at];
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

/* Time for which the clock is watched, which is 0.1 % or better with reads of 10 us. */
#ifndef FABTUNE_WATCHED_NS
#define FABTUNE_WATCHED_NS 20000000u
#endif

static void set_all(const struct fabtune_core *core, const struct fabtune_stage *stage, uint64_t address) {
    for (size_t at = 0; at < stage->setting_count; ++at) {
        const struct fabtune_setting *one = &stage->settings[at];
        if (one->is_address)
            fabtune_set_address(core, one->offset, address + one->value);
        else
            fabtune_set(core, one->offset, one->value);
    }
}

/* Measure the core's clock with a command that has run before, or with the one that hangs. */
static uint32_t measure(const struct fabtune_core *core, const struct fabtune_selftest *test,
                        const struct fabtune_stage *stage, uint64_t address) {
    struct fabtune_rate rate = {0, 0};
    const uint64_t begun = core->now(core->context);
    fabtune_watch(core, test->cycles_low, FABTUNE_WATCHED_NS, &rate);
    while (stage && rate.nanoseconds < FABTUNE_WATCHED_NS && core->now(core->context) - begun < 10u * FABTUNE_WATCHED_NS) {
        set_all(core, stage, address);
        if (fabtune_start(core, stage->command)) break;
        fabtune_watch(core, test->cycles_low, FABTUNE_WATCHED_NS, &rate);
        if (fabtune_finish(core, test->cycles_low, NULL)) break;
    }
    return fabtune_hertz(&rate);
}

static enum fabtune_result run_stages(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                      const volatile unsigned char *memory, uint64_t address,
                                      void (*sync)(void *context, int for_core), struct fabtune_report *report,
                                      const struct fabtune_stage **longest) {
    uint64_t most = 0;
    for (; report->stage < test->stage_count; ++report->stage) {
        const struct fabtune_stage *stage = &test->stages[report->stage];
        set_all(core, stage, address);
        if (sync) sync(core->context, 1);
        const enum fabtune_result result = fabtune_run(core, stage->command, test->cycles_low, &report->end);
        if (sync) sync(core->context, 0);
        if (result) return result;
        if (report->end.cycles > most) most = report->end.cycles, *longest = stage;
        for (size_t at = 0; at < stage->expectation_count; ++at) {
            const struct fabtune_expectation *one = &stage->expectations[at];
            const uint32_t found =
                one->is_memory ? crc32(memory + one->offset, one->size) : core->read(core->context, one->offset);
            if (found != one->expected) {
                report->what = one->what, report->expected = one->expected, report->found = found;
                return FABTUNE_DIFFERENT;
            }
        }
    }
    return FABTUNE_DONE;
}

enum fabtune_result fabtune_selftest_run(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                         const volatile unsigned char *memory, uint64_t address,
                                         void (*sync)(void *context, int for_core), struct fabtune_report *report) {
    const struct fabtune_report none = {0, NULL, 0, 0, {0, 0, 0}, 0};
    const struct fabtune_stage *longest = NULL;
    *report = none;
    enum fabtune_result result = fabtune_check(core, test->signature);
    if (!result) result = fabtune_reset(core);
    if (result) return result;
    result = run_stages(core, test, memory, address, sync, report, &longest);
    if (core->now) report->hertz = measure(core, test, result == FABTUNE_HUNG ? NULL : longest, address);
    if (!result && test->clock_hz && report->hertz && fabtune_clock_differs(report->hertz, test->clock_hz))
        return FABTUNE_OTHER_CLOCK;
    return result;
}
