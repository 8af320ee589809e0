#include "fabtune_selftest.h"

static uint32_t crc32(const volatile unsigned char *bytes, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t at = 0; at < size; ++at) {
        crc ^= bytes[at];
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
    }
    return ~crc;
}

enum fabtune_result fabtune_selftest_run(const struct fabtune_core *core, const struct fabtune_selftest *test,
                                         const volatile unsigned char *memory, uint64_t address,
                                         void (*sync)(void *context, int for_core), struct fabtune_report *report) {
    const struct fabtune_report none = {0, NULL, 0, 0, {0, 0, 0}};
    *report = none;
    enum fabtune_result result = fabtune_check(core, test->signature);
    if (!result) result = fabtune_reset(core);
    if (result) return result;
    for (; report->stage < test->stage_count; ++report->stage) {
        const struct fabtune_stage *stage = &test->stages[report->stage];
        for (size_t at = 0; at < stage->setting_count; ++at) {
            const struct fabtune_setting *one = &stage->settings[at];
            if (one->is_address)
                fabtune_set_address(core, one->offset, address + one->value);
            else
                fabtune_set(core, one->offset, one->value);
        }
        if (sync) sync(core->context, 1);
        result = fabtune_run(core, stage->command, test->cycles_low, &report->end);
        if (sync) sync(core->context, 0);
        if (result) return result;
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
