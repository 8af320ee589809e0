#include "fabtune_text.h"

#include <inttypes.h>
#include <stdio.h>

enum fabtune_status fabtune_exit_status(enum fabtune_result result) {
    switch (result) {
    case FABTUNE_DONE: return FABTUNE_STATUS_RIGHT;
    case FABTUNE_DIFFERENT: return FABTUNE_STATUS_DIFFERENT;
    case FABTUNE_OTHER_CORE:
    case FABTUNE_NO_WRITE:
    case FABTUNE_NO_ANSWER: return FABTUNE_STATUS_NO_ANSWER;
    case FABTUNE_NO_MEMORY: return FABTUNE_STATUS_NO_MEMORY;
    case FABTUNE_FAILED: return FABTUNE_STATUS_FAILED;
    case FABTUNE_BUSY:
    case FABTUNE_NOT_RESET:
    case FABTUNE_HUNG: return FABTUNE_STATUS_HUNG;
    case FABTUNE_OTHER_CLOCK: return FABTUNE_STATUS_OTHER_CLOCK;
    case FABTUNE_NO_INTERRUPT: break;
    }
    return FABTUNE_STATUS_NO_INTERRUPT;
}

static const char *name_of(uint32_t error, const struct fabtune_error_names *errors) {
    if (!error) return "none";
    return error < errors->count && errors->names[error] ? errors->names[error] : "unknown";
}

/* Reason of a command without an end: the cycle counter tells whether, and how fast, the core's clock runs. */
static void describe_hung(char *line, size_t size, const struct fabtune_end *end) {
    const unsigned kilohertz = end->milliseconds ? (unsigned)(end->cycles / end->milliseconds) : 0u;
    if (!end->counting)
        snprintf(line, size, "standing still: the core's clock has stopped, or it is in reset");
    else if (kilohertz)
        snprintf(line, size, "counting, clock %u.%u MHz", kilohertz / 1000u, kilohertz % 1000u / 100u);
    else
        snprintf(line, size, "counting");
}

void fabtune_describe(char line[FABTUNE_LINE], enum fabtune_result result, const struct fabtune_end *end,
                      const struct fabtune_error_names *errors) {
    char state[120], more[100] = "", after[40] = "";
    snprintf(state, sizeof state, "status 0x%08" PRIx32 ", error %" PRIu32 " (%s) at 0x%" PRIx64 ", %" PRIu64 " cycles",
             end->status, end->error, name_of(end->error, errors), end->address, end->cycles);
    if (result == FABTUNE_DONE) {
        snprintf(line, FABTUNE_LINE, "right, %" PRIu64 " cycles", end->cycles);
    } else if (result == FABTUNE_FAILED) {
        snprintf(line, FABTUNE_LINE, "wrong, the core reports an error: %s", state);
    } else if (result == FABTUNE_HUNG) {
        describe_hung(more, sizeof more, end);
        if (end->milliseconds)
            snprintf(after, sizeof after, " after %" PRIu64 ".%u s", end->milliseconds / 1000u,
                     (unsigned)(end->milliseconds % 1000u) / 100u);
        snprintf(line, FABTUNE_LINE, "wrong, no end%s: %s %s", after, state, more);
    } else if (result == FABTUNE_NO_INTERRUPT) {
        snprintf(line, FABTUNE_LINE, "wrong, no interrupt: %s: --poll works without one", state);
    } else if (result == FABTUNE_BUSY) {
        snprintf(line, FABTUNE_LINE, "wrong, the core is busy with another command");
    } else {
        snprintf(line, FABTUNE_LINE, "wrong, the registers do not answer: status 0x%08" PRIx32, end->status);
    }
}

/* Meaning of another signature than this core's. */
static const char *meaning(uint32_t found) {
    if (found == 0xFFFFFFFFu) return "nothing decodes this address: no bitstream is loaded, or the address is another one";
    if (found == 0u) return "the core's clock is off, or it is in reset";
    return "the bitstream is of other settings: load the one of this package";
}

void fabtune_describe_answer(char line[FABTUNE_LINE], enum fabtune_result result, uint32_t found, uint32_t signature) {
    if (result == FABTUNE_DONE)
        snprintf(line, FABTUNE_LINE, "right, signature 0x%08" PRIx32, signature);
    else if (result == FABTUNE_NOT_RESET)
        snprintf(line, FABTUNE_LINE, "wrong, a soft reset does not end: memory does not answer a burst, or the core's clock "
                                     "has stopped: load the bitstream again");
    else if (result == FABTUNE_NO_WRITE)
        snprintf(line, FABTUNE_LINE, "wrong, a register does not keep what is written: it reads 0x%08" PRIx32, found);
    else
        snprintf(line, FABTUNE_LINE, "wrong, signature 0x%08" PRIx32 " instead of 0x%08" PRIx32 ": %s", found, signature,
                 meaning(found));
}

void fabtune_describe_waiting(char line[FABTUNE_LINE], const struct fabtune_core *core) {
    const char *how = core->wait ? "with interrupt" : "polled";
    if (core->now && core->limit)
        snprintf(line, FABTUNE_LINE, "%s, time limit %" PRIu32 " s", how, core->limit / 1000u);
    else
        snprintf(line, FABTUNE_LINE, "%s, no time limit", how);
}
