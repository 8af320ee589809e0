"""Registers derived from a core's declaration, and the signature."""

import dataclasses
import os
import subprocess
import sys
from enum import IntEnum
from typing import get_args

import pytest

from fabtune.golden.axi.register_map import RegisterField, RegisterMap
from fabtune.golden.cores import shell
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.instantft.registers import CORE
from fabtune.golden.cores.shell import Address, CoreRegisters, Counter, Setting, signature_of
from fabtune.golden.cores.zeroth_order.registers import Command as Steps
from fabtune.golden.cores.zeroth_order.registers import Error as StepError
from fabtune.golden.cores.zeroth_order.registers import step_addresses, step_counters, step_settings
from fabtune.golden.cores.zostream.registers import CORE as ZOSTREAM
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.cores.zotrain.registers import CORE as ZOTRAIN
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.description import code_rows, describe, register_rows
from fabtune.golden.errors import UserError
from fabtune.golden.nn.arithmetic.loss import Loss


class Command(IntEnum):
    GO = 1
    STOP = 2


class Error(IntEnum):
    BAD_COMMAND = 1
    BAD_ADDRESS = 2
    BAD_SIZE = 9


TOY = CoreRegisters(
    "toy",
    Command,
    Error,
    (Setting("size", "words", (RegisterField("low", 0, 4, "part"),), reset=3), Address("at", "place")),
    (Counter("words", "done", width=4),),
)


def test_a_core_has_the_shells_registers_around_its_own():
    assert [(item.offset, item.name, item.access) for item in TOY.map] == [
        *((0x00, "command", "W"), (0x04, "status", "R"), (0x08, "interrupt_enable", "RW"), (0x0C, "interrupt", "W1C")),
        *((0x10, "error_address", "R"), (0x14, "error_address_high", "R"), (0x18, "signature", "R")),
        *((0x1C, "size", "RW"), (0x20, "at", "RW"), (0x24, "at_high", "RW")),
        *((0x28, "cycles_low", "R"), (0x2C, "cycles_high", "R"), (0x30, "words", "R")),
        (0xFC, "soft_reset", "W1S"),
    ]
    assert (TOY.map["size"].reset, TOY.map["size"].field("low").width) == (3, 4)
    assert [item.name for item in TOY.map if item.locked] == ["command", "size", "at", "at_high"]
    assert TOY.map.codes == (Command, Error)
    assert (TOY.setting_names, TOY.counter_names, TOY.error_bits) == (("size", "at"), ("words",), 4)
    assert [item.name for item in TOY.addresses] == ["at"]


def test_a_value_is_split_over_the_registers_of_its_setting():
    size, at = TOY.settings
    assert size.words(7) == {"size": 7}
    assert at.words(0xAB_1234_5670) == {"at": 0x1234_5670, "at_high": 0xAB}
    with pytest.raises(UserError, match=r"size = 4294967296 is not in 0 to 2\*\*32 - 1"):
        size.words(1 << 32)
    for value in (-1, 1 << 64):
        with pytest.raises(UserError, match=r"not in 0 to 2\*\*64 - 1"):
            at.words(value)


class Gap(IntEnum):
    """Commands with a gap in their codes."""

    GO = 1
    STOP = 3


class Plain(IntEnum):
    """Errors without addresses."""

    BAD_COMMAND = 1


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"commands": Gap}, r"commands of toy are \[1, 3\]: give codes from 1 up"),
        ({"errors": Command}, "errors of toy lack BAD_COMMAND"),
        ({"errors": Plain, "settings": (Address("at", ""),)}, "errors of toy lack BAD_ADDRESS"),
        ({"settings": (Setting("status", ""),)}, "share a name"),
        ({"settings": (Setting("a", "", reset=1 << 32),)}, "a = 4294967296 is not in 0"),
        ({"settings": tuple(Setting(f"s{at}", "") for at in range(60))}, "beyond 8 address bits"),
    ],
)
def test_a_declaration_with_a_mistake_is_refused(change, refusal):
    parts = {"name": "toy", "commands": Command, "errors": Error} | change
    with pytest.raises((ValueError, UserError), match=refusal):
        CoreRegisters(**parts)


OTHER = {
    "network": "1x8x8 conv4k3p1 relu pool2 flatten fc10",
    "rank": 3,
    "last_only": True,
    "tunes": "layer",
    "byte_inputs": False,
    "stochastic": True,
    "rates": True,
    "early_stop": True,
    "lanes": 16,
    "columns": 8,
    "batch": 19,
    "cache_entries": 100,
    "ports": 2,
    "cache": "chip",
    "address": 36,
}


def test_the_signature_changes_with_every_parameter():
    assert {*OTHER, "monitor", "loss", "validation"} == {item.name for item in dataclasses.fields(InstantftSpec)}
    assert InstantftSpec(monitor=True).signature == InstantftSpec().signature
    specs = [InstantftSpec(), *(InstantftSpec(**{name: value}) for name, value in OTHER.items())]
    specs.append(InstantftSpec(early_stop=True, validation=True))
    specs += [InstantftSpec(network="64 fc8 relu fc64", loss=loss) for loss in get_args(Loss)]
    assert len({spec.signature for spec in specs}) == len(specs)
    # a loss with another network
    assert len({InstantftSpec(network="20 fc20", loss=loss).signature for loss in ("cross_entropy", "mse")}) == 2


def test_the_signature_changes_with_registers_and_layout():
    base = signature_of({"a": 1}, TOY.map)
    moved = CoreRegisters("toy", Command, Error, tuple(reversed(TOY.settings)), TOY.counters).map
    reset = CoreRegisters("toy", Command, Error, (Setting("size", "words", reset=4), *TOY.settings[1:])).map
    codes = RegisterMap("toy", TOY.map.registers, (Command,))
    found = [base, signature_of({"a": 2}, TOY.map), *(signature_of({"a": 1}, other) for other in (moved, reset, codes))]
    found.append(signature_of({"a": 1}, TOY.map, shell.LAYOUT_VERSION + 1))
    assert len(set(found)) == len(found)
    prose = (dataclasses.replace(TOY.settings[0], summary="other words"), TOY.settings[1])
    reworded = CoreRegisters("toy", Command, Error, prose, TOY.counters).map
    assert signature_of({"a": 1}, reworded) == base


def test_a_preset_and_its_description_are_the_same_core():
    description = "1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10"
    assert InstantftSpec(network="digits").signature == InstantftSpec(network=description).signature


def test_the_signature_is_the_same_in_every_process():
    imported = "from fabtune.golden.cores.instantft.instantft import InstantftSpec as S"
    code = f"{imported}; print(S(rank=2).signature, S().signature)"
    own = f"{InstantftSpec(rank=2).signature} {InstantftSpec().signature}\n"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert done.stdout == own
    assert 0 < InstantftSpec().signature < 1 << 32
    assert CORE.map["signature"].access == "R"


@pytest.mark.parametrize("kind", [InstantftSpec, ZotrainSpec, ZostreamSpec])
def test_the_description_of_a_core_has_its_registers_and_codes(kind):
    spec = kind()
    found = describe(spec)
    assert {name: found[name] for name in ("registers", "codes")} == spec.registers.map.canonical()
    rows = list(register_rows(spec.registers.map))
    assert [row[1] for row in rows if row[0]] == [register.name for register in spec.registers.map]
    assert len(list(code_rows(spec.registers.map))) == sum(map(len, spec.registers.map.codes))


@pytest.mark.parametrize("core", [ZOTRAIN, ZOSTREAM])
def test_cores_of_zeroth_order_have_its_codes_settings_and_counters(core):
    for kind, own in ((Steps, core.commands), (StepError, core.errors)):
        assert {code.name: own[code.name] for code in kind} == dict(kind.__members__)
    shared = {item.name for item in (*step_addresses(()), *step_settings(range(2)), *step_counters())}
    assert shared <= {*core.setting_names, *core.counter_names}
    assert len(set(core.errors)) == len(core.errors.__members__)
