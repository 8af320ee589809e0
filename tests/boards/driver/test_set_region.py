"""The C driver refuses a region that the core cannot address, and writes no register."""

import subprocess

from fabtune.boards.packaging import DRIVER
from fabtune.golden.axi.register_map import RegisterMap, c_header
from fabtune.golden.cores.shell import SHELL

from .programs import COMPILER, WARNINGS, needs_compiler

PROGRAM = """
#include "fabtune.h"
#include <stdio.h>
static uint64_t set;
static uint32_t read_it(void *context, uint32_t offset) { (void)context, (void)offset; return 0; }
static void write_it(void *context, uint32_t offset, uint32_t value) {
    (void)context;
    set |= (uint64_t)value << (offset == 0x20u ? 0 : 32);
}
int main(void) {
    const struct fabtune_core core = {.read = read_it, .write = write_it};
    const uint64_t end = (uint64_t)1 << 40;
    const uint64_t regions[][2] = {
        {end - 512, 513}, {end - 504, 16}, {end + 16, 0}, {UINT64_MAX - 15, 32}, {end - 512, 512}};
    for (size_t at = 0; at < sizeof regions / sizeof *regions; ++at) {
        const int result = (int)fabtune_set_region(&core, 0x20u, regions[at][0], regions[at][1], 40u);
        printf("%d %llx\\n", result, (unsigned long long)set);
    }
    return 0;
}
"""


@needs_compiler
def test_a_region_that_the_core_cannot_address_is_refused(tmp_path):
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "fabtune_shell.h").write_text(c_header(RegisterMap("fabtune_shell", SHELL)))
    sources = ["program.c", str(DRIVER / "fabtune.c")]
    command = [COMPILER, *WARNINGS, "-I", str(DRIVER), "-I", ".", *sources, "-o", "program"]
    subprocess.run(command, check=True, cwd=tmp_path)
    said = subprocess.run(["./program"], check=True, cwd=tmp_path, capture_output=True, text=True).stdout
    assert said.splitlines() == [*4 * ["9 0"], "0 fffffffe00"]
