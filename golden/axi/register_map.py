"""The core's registers as a host sees them: the one definition that RTL, driver, C header and documentation read."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import Literal

WORD = 4
"""Bytes of a register."""

Access = Literal["R", "W", "RW", "W1C"]
"""As a host may: read, write, both, or read and clear a bit by writing a 1 to it."""


class Command(IntEnum):
    """What `command` starts."""

    LOAD = 1
    LOAD_ADAPTERS = 2
    TUNE = 3
    INFER = 4
    SAVE_ADAPTERS = 5
    FORGET = 6


class Error(IntEnum):
    """Why a command ended early: the code in `status`."""

    BAD_COMMAND = 1
    ZERO_LENGTH = 2
    MISALIGNED = 3
    BAD_BATCH = 4
    BAD_RATE = 5
    BAD_INDEX = 6
    BAD_LABEL = 7
    READ_SLVERR = 8
    READ_DECERR = 9
    WRITE_SLVERR = 10
    WRITE_DECERR = 11
    BAD_MODE = 12
    BAD_PLACES = 13


@dataclass(frozen=True)
class Field:
    """Some bits of a register.

    Parameters
    ----------
    name : str
        An identifier.
    low, width : int
        Lowest bit and number of bits.
    summary : str
        One line.
    """

    name: str
    low: int
    width: int
    summary: str

    @property
    def mask(self) -> int:
        """Its bits, in place."""
        return ((1 << self.width) - 1) << self.low

    def of(self, word: int) -> int:
        """Its value in a register's."""
        return (word & self.mask) >> self.low


@dataclass(frozen=True)
class Register:
    """A 32-bit word.

    Parameters
    ----------
    name : str
        An identifier.
    offset : int
        Byte address.
    access : "R", "W", "RW" or "W1C"
        What a host may do.
    summary : str
        One line.
    fields : tuple of Field
        Where a register is more than one number.
    """

    name: str
    offset: int
    access: Access
    summary: str
    fields: tuple[Field, ...] = ()

    def field(self, name: str) -> Field:
        """A field by its name."""
        return next(item for item in self.fields if item.name == name)


@dataclass(frozen=True)
class RegisterMap:
    """Registers and the codes that they carry.

    Parameters
    ----------
    name : str
        Prefix in C.
    registers : tuple of Register
        In order of offset.
    codes : tuple of types of IntEnum
        Commands, errors.
    address_bits : int
        Of a byte address.
    """

    name: str
    registers: tuple[Register, ...]
    codes: tuple[type[IntEnum], ...] = ()
    address_bits: int = 8

    def __post_init__(self) -> None:
        """Refuse a map in which a name or a place means two things."""
        names = [register.name for register in self.registers]
        offsets = [register.offset for register in self.registers]
        if len(set(names)) < len(names) or sorted(set(offsets)) != offsets:
            raise ValueError(f"registers of {self.name} share a name or an offset, or are out of order")
        if any(offset % WORD or offset >> self.address_bits for offset in offsets):
            raise ValueError(f"a register of {self.name} lies between words or beyond {self.address_bits} address bits")
        for register in self.registers:
            masks = [item.mask for item in register.fields]
            if sum(masks) != reduce(operator.or_, masks, 0) or sum(masks) >> (8 * WORD):
                raise ValueError(f"fields of {register.name} overlap or are beyond bit {8 * WORD - 1}")

    def __iter__(self) -> Iterator[Register]:
        """All registers, by offset."""
        return iter(self.registers)

    def __getitem__(self, name: str) -> Register:
        """A register by its name."""
        for register in self.registers:
            if register.name == name:
                return register
        raise KeyError(name)


REGISTERS = RegisterMap(
    "fabtune_core",
    (
        Register("command", 0x00, "W", "a code starts a command"),
        Register(
            "status",
            0x04,
            "R",
            "where the core is",
            (
                Field("busy", 0, 1, "a command is running"),
                Field("done", 1, 1, "the last command has ended"),
                Field("error", 2, 1, "it ended with an error"),
                Field("error_code", 8, 8, "which one"),
            ),
        ),
        Register(
            "interrupt_enable",
            0x08,
            "RW",
            "what raises the interrupt",
            (Field("finished", 0, 1, "the end of a command, done or error"),),
        ),
        Register(
            "interrupt",
            0x0C,
            "W1C",
            "what has happened, whether it raises the interrupt or not",
            (Field("finished", 0, 1, "a command has ended; write 1 to clear"),),
        ),
        Register("error_address", 0x10, "R", "byte address of the failing burst, or the offending value"),
        Register("signature", 0x14, "R", "identifies the configuration the core was generated with"),
        Register("parameters", 0x18, "RW", "byte address (16-byte aligned) of the frozen parameters' image"),
        Register("adapters", 0x1C, "RW", "byte address of the adapters' image"),
        Register("samples", 0x20, "RW", "byte address of the samples"),
        Register("order", 0x24, "RW", "byte address of the order list: 4 bytes a visit, 23:0 index, 31:24 label"),
        Register("cache", 0x28, "RW", "byte address of the forward cache"),
        Register("logits", 0x2C, "RW", "byte address to which logits go, in order of visit"),
        Register("places", 0x30, "RW", "places in the cache (samples)"),
        Register("samples_per_epoch", 0x34, "RW", "visits in an epoch"),
        Register("epochs", 0x38, "RW", "epochs of a tuning"),
        Register("batch", 0x3C, "RW", "samples a batch, from 1 to the generated maximum"),
        Register("rate", 0x40, "RW", "a sample's learning rate, 17 bits"),
        Register(
            "mode",
            0x44,
            "RW",
            "how to run",
            (
                Field("raw", 0, 1, "the cache holds Q8.16 words and not NF4"),
                Field("write_logits", 1, 1, "write logits while tuning"),
            ),
        ),
        Register("cycles_low", 0x48, "R", "clock cycles of the last command, bits 31:0"),
        Register("cycles_high", 0x4C, "R", "clock cycles of the last command, bits 63:32"),
        Register("batches", 0x50, "R", "batches of the last command"),
        Register("misses", 0x54, "R", "cache misses of the last command"),
        Register("saturations", 0x58, "R", "numbers that the last command saturated"),
    ),
    (Command, Error),
)
"""The fine-tuning core's registers."""


def c_header(registers: RegisterMap) -> str:
    """A C header: offsets, masks and shifts of fields, codes."""
    prefix = registers.name.upper()
    lines = [f"/* Registers of {registers.name}: byte offsets, fields and codes. Generated. */"]
    lines += [f"#ifndef {prefix}_H", f"#define {prefix}_H", ""]
    for register in registers:
        name = f"{prefix}_{register.name.upper()}"
        lines.append(f"#define {name} 0x{register.offset:02X}u /* {register.access}: {register.summary} */")
        for item in register.fields:
            field = f"{name}_{item.name.upper()}"
            lines.append(f"#define {field}_MASK 0x{item.mask:08X}u /* {item.summary} */")
            lines.append(f"#define {field}_SHIFT {item.low}u")
    for codes in registers.codes:
        kind = codes.__name__.upper()
        lines += ["", f"enum {registers.name}_{kind.lower()} {{"]
        lines += [f"  {prefix}_{kind}_{code.name} = {code.value}," for code in codes]
        lines.append("};")
    return "\n".join([*lines, "", f"#endif /* {prefix}_H */", ""])


def markdown(registers: RegisterMap) -> str:
    """Tables for the documentation: registers with their fields, then each kind of code."""
    lines = ["| offset | name | access | |", "|---|---|---|---|"]
    for register in registers:
        lines.append(f"| 0x{register.offset:02X} | `{register.name}` | {register.access} | {register.summary} |")
        for item in register.fields:
            bits = f"bits {item.low + item.width - 1}:{item.low}" if item.width > 1 else f"bit {item.low}"
            lines.append(f"| | `{item.name}` | {bits} | {item.summary} |")
    for codes in registers.codes:
        lines += ["", f"| code | {codes.__name__.lower()} |", "|---|---|"]
        lines += [f"| {code.value} | `{code.name.lower()}` |" for code in codes]
    return "\n".join([*lines, ""])
