"""C source of a self-test, for ``boards/driver/fabtune_selftest.h``."""

from __future__ import annotations

from ...golden.axi.regions import JobMemory
from ...golden.cores.core import CoreSpec
from .job import SelfTest, SelfTestStage


def c_source(test: SelfTest, clock_hz: int = 0) -> str:
    """C source of the stages of a self-test; the memory is a separate file with the bytes of `SelfTest.image`.

    `clock_hz` is the expected clock rate (0: any rate) of programs compiled without `FABTUNE_CLOCK_HZ`.
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
    counts = []
    for name, stages in (("copy", test.copy), ("stages", test.stages)):
        rows = []
        for number, stage in enumerate(stages):
            settings, expectations = _settings(test, prefix, stage), _expectations(prefix, stage)
            lines += _array("fabtune_setting", f"{name}_settings{number}", settings)
            lines += _array("fabtune_expectation", f"{name}_expectations{number}", expectations)
            tables = [
                f"{name}_{kind}{number}, {len(table)}" if table else "NULL, 0"
                for kind, table in (("settings", settings), ("expectations", expectations))
            ]
            rows.append(f'{{"{stage.name}", {prefix}_COMMAND_{stage.command.name}, {", ".join(tables)}}}')
        lines += _array("fabtune_stage", name, rows)
        counts.append(f"{name}, {len(rows)}" if rows else "NULL, 0")
    names = error_names(test.spec)
    lines += [
        f"static const char *const error_names[] = {names};",
        "",
        "const struct fabtune_selftest fabtune_selftest = {",
        f'    "{test.spec.name}", 0x{test.spec.signature:08X}u, {prefix}_CYCLES_LOW, {setting_offset(test.spec)},',
        "    FABTUNE_CLOCK_HZ,",
        f"    0x{test.size:X}u, 0x{test.image.size:X}u,",
        f"    {', '.join(counts)}, {{error_names, sizeof error_names / sizeof *error_names}}",
        "};",
    ]
    return "\n".join([*lines, ""])


def error_names(spec: CoreSpec) -> str:
    """C array of a core's error names, indexed by code; NULL for unused codes."""
    names = {code.value: f'"{code.name.lower()}"' for code in spec.registers.errors}
    return f"{{{', '.join(names.get(code, 'NULL') for code in range(max(names) + 1))}}}"


def setting_offset(spec: CoreSpec) -> str:
    """C literal: the offset of the first setting, whose bits a program tests."""
    return f"0x{spec.registers.map[spec.registers.settings[0].registers[0]].offset:X}u"


def assembler_source(name: str, memory: JobMemory) -> str:
    """Assembler source that links a job's memory into a program: the bytes of NAME.bin, padded to the full size."""
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
    memory = [
        f'{{"{item.what}", 1, 0x{item.offset:X}u, 0x{item.size:X}u, 0x{item.crc32:08X}u}}' for item in stage.memory
    ]
    return counters + memory


def _array(kind: str, name: str, rows: list[str]) -> list[str]:
    """Lines of a C array; no lines for an empty array."""
    if not rows:
        return []
    return [f"static const struct {kind} {name}[] = {{", *(f"    {row}," for row in rows), "};"]
