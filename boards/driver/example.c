#include "example.h"

#include "digits.h"

#include <inttypes.h>
#include <stdio.h>

/* Images whose largest logit is that of their label. */
static unsigned correct(const volatile void *memory) {
    const volatile unsigned char *labels = (const volatile unsigned char *)memory + DIGITS_LABELS;
    const volatile int32_t *logits = (const volatile int32_t *)memory + DIGITS_LOGITS / sizeof *logits;
    unsigned found = 0;
    for (size_t image = 0; image < DIGITS_TESTED; ++image, logits += DIGITS_STRIDE) {
        size_t best = 0;
        for (size_t one = 1; one < DIGITS_CLASSES; ++one)
            if (logits[one] > logits[best]) best = one;
        found += best == labels[image];
    }
    return found;
}

/* So many images in tenths of a percent. */
static unsigned tenths(unsigned found) { return (1000u * found + DIGITS_TESTED / 2u) / DIGITS_TESTED; }

enum fabtune_result example_run(const struct fabtune_core *core, const volatile void *memory, uint64_t address,
                                void (*sync)(void *context, int for_core), char *line) {
    struct fabtune_end end = {0, 0, 0};
    unsigned before = 0, after = 0;
    enum fabtune_result result = fabtune_check(core, DIGITS_SIGNATURE);
    if (result) {
        snprintf(line, EXAMPLE_LINE, "this is not the bitstream of 0x%08x", DIGITS_SIGNATURE);
        return result;
    }
    result = fabtune_reset(core);
    if (result) {
        snprintf(line, EXAMPLE_LINE, "the core cannot be reset, as memory does not answer: load the bitstream again");
        return result;
    }
    if (sync) sync(core->context, 1);
    result = example_load(core, address, &end);
    if (!result) result = example_infer(core, address, &end);
    if (sync) sync(core->context, 0);
    if (!result) {
        before = correct(memory);
        result = example_tune(core, address, &end);
    }
    if (!result) result = example_infer(core, address, &end);
    if (sync) sync(core->context, 0);
    if (result) {
        snprintf(line, EXAMPLE_LINE, "result %d, error %" PRIu32 " at 0x%" PRIx64, (int)result, end.error, end.address);
        return result;
    }
    after = correct(memory);
    snprintf(line, EXAMPLE_LINE, "accuracy %u.%u %% before, %u.%u %% after; golden says %u.%u %% and %u.%u %%",
             tenths(before) / 10u, tenths(before) % 10u, tenths(after) / 10u, tenths(after) % 10u,
             tenths(DIGITS_CORRECT_BEFORE) / 10u, tenths(DIGITS_CORRECT_BEFORE) % 10u,
             tenths(DIGITS_CORRECT_AFTER) / 10u, tenths(DIGITS_CORRECT_AFTER) % 10u);
    return before == DIGITS_CORRECT_BEFORE && after == DIGITS_CORRECT_AFTER ? FABTUNE_DONE : FABTUNE_DIFFERENT;
}
