"""Register map: published form, and refusal of invalid maps."""

import re
import shutil
import subprocess

import pytest

from fabtune.golden.axi.register_map import Register, RegisterField, RegisterMap, c_header, markdown
from fabtune.golden.cores.adapters.registers import Command, Error
from fabtune.golden.cores.instantft.registers import REGISTERS

PUBLISHED = """
00 command W          04 status R           08 interrupt_enable RW  0C interrupt W1C  10 error_address R
14 error_address_high R                     18 signature R          1C parameters RW  20 parameters_high RW
24 adapters RW        28 adapters_high RW   2C samples RW           30 samples_high RW
34 order RW           38 order_high RW      3C cache RW             40 cache_high RW
44 logits RW          48 logits_high RW     4C cache_entries RW     50 samples_per_epoch RW
54 epochs RW          58 batch RW           5C rate RW              60 mode RW        64 cycles_low R
68 cycles_high R      6C batches R          70 misses R             74 saturations R      FC soft_reset W1S
"""


def test_hosts_find_registers_where_they_were():
    words = PUBLISHED.split()
    found = [(f"{item.offset:02X}", item.name, item.access) for item in REGISTERS]
    assert found == list(zip(words[::3], words[1::3], words[2::3], strict=True))
    assert [code.name for code in Command] == ["LOAD", "LOAD_ADAPTERS", "TUNE", "INFER", "SAVE_ADAPTERS", "FORGET"]
    assert [code.value for code in Command] == list(range(1, 7))
    assert [code.value for code in Error] == list(range(1, 14))


def test_status_is_taken_apart():
    status = REGISTERS["status"]
    assert {item.name: item.of(0x0000_0A06) for item in status.fields} == {
        "busy": 0,
        "done": 1,
        "error": 1,
        "error_code": Error.WRITE_SLVERR,
    }
    assert status.field("error_code").mask == 0xFF00


def test_header_compiles_and_says_the_same(tmp_path):
    header = c_header(REGISTERS)
    defined = dict(re.findall(r"#define FABTUNE_INSTANTFT_(\w+) (0x[0-9A-F]+)u", header))
    for register in REGISTERS:
        assert int(defined[register.name.upper()], 16) == register.offset
    assert int(defined["STATUS_ERROR_CODE_MASK"], 16) == 0xFF00
    assert "FABTUNE_INSTANTFT_COMMAND_SAVE_ADAPTERS = 5," in header
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    (tmp_path / "core.h").write_text(header)
    (tmp_path / "core.c").write_text(
        '#include "core.h"\n#include "core.h"\n'
        '_Static_assert(FABTUNE_INSTANTFT_SATURATIONS == 0x74u, "");\n'
        "_Static_assert((FABTUNE_INSTANTFT_ERROR_BAD_MODE << FABTUNE_INSTANTFT_STATUS_ERROR_CODE_SHIFT) == 0xC00,"
        ' "");\n'
    )
    flags = ["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([compiler, *flags, tmp_path / "core.c"], check=True)


def test_table_has_every_register_field_and_code():
    table = markdown(REGISTERS)
    for register in REGISTERS:
        assert f"| 0x{register.offset:02X} | `{register.name}` | {register.access} |" in table
    assert "| | `error_code` | bits 15:8 |" in table
    assert "| | `busy` | bit 0 |" in table
    assert "| 6 | `forget` |" in table
    assert "| 12 | `bad_mode` |" in table
    assert {line.count("|") for line in table.splitlines() if line} == {3, 5}


@pytest.mark.parametrize(
    "registers",
    [
        (Register("a", 0, "R", ""), Register("a", 4, "R", "")),
        (Register("a", 4, "R", ""), Register("b", 4, "R", "")),
        (Register("a", 4, "R", ""), Register("b", 0, "R", "")),
        (Register("a", 2, "R", ""),),
        (Register("a", 0x100, "R", ""),),
        (Register("a", 0, "R", "", (RegisterField("x", 0, 2, ""), RegisterField("y", 1, 1, ""))),),
        (Register("a", 0, "R", "", (RegisterField("x", 31, 2, ""),)),),
    ],
)
def test_a_map_with_a_mistake_is_refused(registers):
    with pytest.raises(ValueError, match=r"of wrong|of a "):
        RegisterMap("wrong", registers)


def test_unknown_names_are_key_errors():
    with pytest.raises(KeyError):
        REGISTERS["rates"]
