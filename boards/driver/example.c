#include "example.h"

#include "example_job.h"

#include <inttypes.h>
#include <stdio.h>

/* Number of samples with the largest logit at the label. */
static unsigned correct(const volatile void *memory) {
    const volatile unsigned char *labels = (const volatile unsigned char *)memory + EXAMPLE_LABELS;
    const volatile int32_t *logits = (const volatile int32_t *)memory + EXAMPLE_LOGITS / sizeof *logits;
    unsigned found = 0;
    for (size_t sample = 0; sample < EXAMPLE_TESTED; ++sample, logits += EXAMPLE_STRIDE) {
        size_t best = 0;
        for (size_t one = 1; one < EXAMPLE_CLASSES; ++one)
            if (logits[one] > logits[best]) best = one;
        found += best == labels[sample];
    }
    return found;
}

static void print(const struct fabtune_host *host, const char *part, const char *said) {
    char line[FABTUNE_LINE + 120];
    snprintf(line, sizeof line, "%s: %s", part, said);
    if (host->print) host->print(line);
}

/* Whether all logits equal golden's; prints both CRCs otherwise. */
static int same_logits(const struct fabtune_host *host, const volatile void *memory, uint32_t expected) {
    char said[FABTUNE_LINE];
    const volatile unsigned char *logits = (const volatile unsigned char *)memory + EXAMPLE_LOGITS;
    const uint32_t found = fabtune_crc32(logits, EXAMPLE_LOGITS_SIZE);
    if (found == expected) return 1;
    snprintf(said, sizeof said, "wrong, CRC-32 0x%08" PRIx32 ", golden says 0x%08" PRIx32, found, expected);
    print(host, "logits", said);
    return 0;
}

/* Correct samples in tenths of a percent. */
static unsigned tenths(unsigned found) { return (1000u * found + EXAMPLE_TESTED / 2u) / EXAMPLE_TESTED; }

/* A part of the job, with its messages. */
struct part {
    const char *name;
    enum fabtune_result (*run)(const struct fabtune_core *core, uint64_t memory, struct fabtune_end *end);
};

static enum fabtune_result run_part(const struct fabtune_core *core, const struct part *part, uint64_t address,
                                    const struct fabtune_host *host) {
    static const char *const names[] = EXAMPLE_ERROR_NAMES;
    const struct fabtune_error_names errors = {names, sizeof names / sizeof *names};
    struct fabtune_end end = {0};
    char said[FABTUNE_LINE];
    print(host, part->name, "begins");
    if (host->sync) host->sync(core->context, 1);
    const enum fabtune_result result = part->run(core, address, &end);
    if (host->sync) host->sync(core->context, 0);
    fabtune_describe(said, result, &end, &errors);
    print(host, part->name, said);
    return result;
}

enum fabtune_result example_run(const struct fabtune_core *core, const volatile void *memory, uint64_t address,
                                const struct fabtune_host *host) {
    static const struct part parts[] = {
        {"load", example_load}, {"infer", example_infer}, {"tune", example_tune}, {"infer again", example_infer}};
    char line[FABTUNE_LINE + 80], said[FABTUNE_LINE];
    uint32_t found;
    unsigned before = 0, after = 0;
    int same = 1;
    fabtune_describe_waiting(said, core);
    snprintf(line, sizeof line, "%s, signature 0x%08x, %s", EXAMPLE_CORE, EXAMPLE_SIGNATURE, said);
    print(host, "example", line);
    print(host, "registers", "begin");
    enum fabtune_result result = fabtune_answers(core, EXAMPLE_SIGNATURE, EXAMPLE_SETTING, &found);
    fabtune_describe_answer(line, result, found, EXAMPLE_SIGNATURE);
    print(host, "registers", line);
    for (size_t at = 0; !result && at < sizeof parts / sizeof *parts; ++at) {
        result = run_part(core, &parts[at], address, host);
        if (at == 1) before = correct(memory), same = same_logits(host, memory, EXAMPLE_CRC32_BEFORE);
    }
    if (result) {
        snprintf(line, sizeof line, "wrong, exit status %d", (int)fabtune_exit_status(result));
        print(host, "example", line);
        return result;
    }
    after = correct(memory);
    same = same_logits(host, memory, EXAMPLE_CRC32_AFTER) && same;
    snprintf(line, sizeof line, "accuracy %u.%u %% before, %u.%u %% after; golden says %u.%u %% and %u.%u %%",
             tenths(before) / 10u, tenths(before) % 10u, tenths(after) / 10u, tenths(after) % 10u,
             tenths(EXAMPLE_CORRECT_BEFORE) / 10u, tenths(EXAMPLE_CORRECT_BEFORE) % 10u,
             tenths(EXAMPLE_CORRECT_AFTER) / 10u, tenths(EXAMPLE_CORRECT_AFTER) % 10u);
    print(host, "example", line);
    return same && before == EXAMPLE_CORRECT_BEFORE && after == EXAMPLE_CORRECT_AFTER ? FABTUNE_DONE : FABTUNE_DIFFERENT;
}
