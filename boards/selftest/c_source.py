"""C source of a self-test, for ``boards/driver/fabtune_selftest.h``."""

from __future__ import annotations

from ...golden.axi.regions import JobMemory
from .job import SelfTest, SelfTestStage


def c_source(test: SelfTest, clock_hz: int = 0) -> str:
    """Write the stages of a self-test as C; its memory is a file of its own, `SelfTest.image`.

    Parameters
    ----------
    test : SelfTest
    clock_hz : int
        Rate that the core's clock has to have, 0 for any: for programs that are compiled without `FABTUNE_CLOCK_HZ`.
    """
    prefix = test.spec.registers.name.upper()
    lines = [
        f"/* Self-test of {test.spec.name}, signature 0x{test.spec.signature:08X}. Generated. */",
        '#include "fabtune_selftest.h"',
        f'#include "{test.spec.registers.name}.h"',
        "",
        "#ifndef FABTUNE_CLOCK_HZ /* linux/Makefile has it from Vivado's project */",
        f"#define FABTUNE_CLOCK_HZ {clock_hz}u",
        "#endif",
        "",
    ]
    rows = []
    for number, stage in enumerate(test.stages):
        settings, expectations = _settings(test, prefix, stage), _expectations(prefix, stage)
        lines += _array("fabtune_setting", f"settings{number}", settings)
        lines += _array("fabtune_expectation", f"expectations{number}", expectations)
        tables = [
            f"{name}{number}, {len(table)}" if table else "NULL, 0"
            for name, table in (("settings", settings), ("expectations", expectations))
        ]
        rows.append(f'{{"{stage.name}", {prefix}_COMMAND_{stage.command.name}, {", ".join(tables)}}}')
    lines += _array("fabtune_stage", "stages", rows)
    sizes = f"0x{test.size:X}u, 0x{test.image.size:X}u"
    lines += [
        "",
        "const struct fabtune_selftest fabtune_selftest = {",
        f"    0x{test.spec.signature:08X}u, {prefix}_CYCLES_LOW, {sizes}, stages, {len(rows)}, FABTUNE_CLOCK_HZ",
        "};",
    ]
    return "\n".join([*lines, ""])


def assembler_source(name: str, memory: JobMemory) -> str:
    """Write the memory of a job for a program without files: room for all of it, at its beginning the file NAME.bin."""
    return "\n".join(
        [
            f"/* Memory of the job in {name}.bin. Generated. */",
            "    .data",
            "    .balign 64",
            f"    .global {name}_memory",
            f"{name}_memory:",
            f'    .incbin "{name}.bin"',
            f"    .zero 0x{memory.end - memory.image.size:X}",
            "    .balign 64",
            "#ifdef __linux__",
            '    .section .note.GNU-stack,"",%progbits',
            "#endif",
            "",
        ]
    )


def _settings(test: SelfTest, prefix: str, stage: SelfTestStage) -> list[str]:
    addresses = {address.name for address in test.spec.registers.addresses}
    return [
        f"{{{prefix}_{name.upper()}, {int(name in addresses)}, 0x{value:X}u}}" for name, value in stage.settings.items()
    ]


def _expectations(prefix: str, stage: SelfTestStage) -> list[str]:
    counters = [f'{{"{name}", 0, {prefix}_{name.upper()}, 0, {value}u}}' for name, value in stage.counters.items()]
    memory = [f'{{"{one.what}", 1, 0x{one.offset:X}u, 0x{one.size:X}u, 0x{one.crc32:08X}u}}' for one in stage.memory]
    return counters + memory


def _array(kind: str, name: str, rows: list[str]) -> list[str]:
    """Write a table; nothing where it is empty."""
    if not rows:
        return []
    return [f"static const struct {kind} {name}[] = {{", *(f"    {row}," for row in rows), "};"]
