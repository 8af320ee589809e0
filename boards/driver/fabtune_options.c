#include "fabtune_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 1000000ul /* seconds: 11 days; the milliseconds fit 32 bits */

static int complain(const char *program, const char *what, const char *word, const char *usage) {
    fprintf(stderr, "%s: %s%s: usage: %s " FABTUNE_OPTIONS " %s\n", program, what, word, program, usage);
    return -1;
}

/* Whole seconds as milliseconds; 0 for any other text. */
static uint32_t milliseconds_of(const char *word) {
    char *end;
    if (!*word || strspn(word, "0123456789") != strlen(word)) return 0;
    errno = 0;
    const unsigned long seconds = strtoul(word, &end, 10);
    return errno || seconds > LONGEST ? 0 : (uint32_t)(1000ul * seconds);
}

int fabtune_options_read(struct fabtune_options *options, int count, char **arguments, const char *usage) {
    const char *program = arguments[0];
    int words = 0;
    for (int at = 1; at < count; ++at) {
        const char *word = arguments[at];
        if (!strcmp(word, "--poll")) {
            options->poll = 1;
        } else if (!strcmp(word, "--seconds")) {
            const char *number = at + 1 < count ? arguments[++at] : "";
            if (!(options->limit = milliseconds_of(number)))
                return complain(program, "--seconds takes a whole number from 1 to 1000000, not ", number, usage);
        } else if (!strncmp(word, "--", 2)) {
            return complain(program, "there is no option ", word, usage);
        } else if (words == 3) {
            return complain(program, "too many arguments: ", word, usage);
        } else {
            options->words[words++] = word;
        }
    }
    return words == 3 ? 0 : complain(program, "too few arguments", "", usage);
}
