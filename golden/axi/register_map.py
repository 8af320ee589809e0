"""Register map of a core as data: source of RTL, model, driver, C header and documentation."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from typing import Any, Literal

WORD = 4
"""Bytes of a register."""
SIGNATURE = "signature"
"""Register that identifies a configuration, a constant of the RTL."""
ENABLE = "_enable"
"""Suffix of the RW register that enables, bit by bit, the interrupts of a W1C register."""

Access = Literal["R", "W", "RW", "W1C", "W1S"]
"""Access of a host: read; write; both; clear, or set, a bit by writing a 1."""


@dataclass(frozen=True)
class RegisterField:
    """Field of a register: `width` bits from bit `low`. The name is an identifier, the summary one line."""

    name: str
    low: int
    width: int
    summary: str

    @property
    def mask(self) -> int:
        """Bits of the field, in place."""
        return ((1 << self.width) - 1) << self.low

    @property
    def place(self) -> str:
        """Text of the field's bits: ``bits 15:8``, ``bit 0``."""
        return f"bits {self.low + self.width - 1}:{self.low}" if self.width > 1 else f"bit {self.low}"

    def of(self, word: int) -> int:
        """Value of the field in a register's word."""
        return (word & self.mask) >> self.low


@dataclass(frozen=True)
class Register:
    """A 32-bit word at a byte offset. The name is an identifier, the summary one line.

    Parameters
    ----------
    fields : tuple of RegisterField
        Fields, if the register is more than one number. Each field of a W1C register is one bit, set by the event of
        the same name; each field of a W1S register is one bit, cleared by the core.
    reset : int
        Value after reset of an RW register.
    locked : bool
        If true, writes during a command are ignored.
    """

    name: str
    offset: int
    access: Access
    summary: str
    fields: tuple[RegisterField, ...] = ()
    reset: int = 0
    locked: bool = False

    def field(self, name: str) -> RegisterField:
        return next(item for item in self.fields if item.name == name)

    def canonical(self) -> list[Any]:
        """Everything a host depends on, without prose, for JSON."""
        fields = [[item.name, item.low, item.width] for item in self.fields]
        return [self.name, self.offset, self.access, fields, self.reset, self.locked]


@dataclass(frozen=True)
class RegisterMap:
    """Registers in order of offset, and codes: commands, errors; `name` is the prefix in C.

    Raises `ValueError` if registers share a name or an offset, are out of order, between words or beyond the address
    bits, if fields overlap, or if a reset value does not fit its register.
    """

    name: str
    registers: tuple[Register, ...]
    codes: tuple[type[IntEnum], ...] = ()
    address_bits: int = 8

    def __post_init__(self) -> None:
        names = [register.name for register in self.registers]
        offsets = [register.offset for register in self.registers]
        if any(offset % WORD or offset >> self.address_bits for offset in offsets):
            raise ValueError(f"a register of {self.name} lies between words or beyond {self.address_bits} address bits")
        if len(set(names)) < len(names) or sorted(set(offsets)) != offsets:
            raise ValueError(f"registers of {self.name} share a name or an offset, or are out of order")
        for register in self.registers:
            masks = [item.mask for item in register.fields]
            if sum(masks) != reduce(operator.or_, masks, 0) or sum(masks) >> (8 * WORD):
                raise ValueError(f"fields of {register.name} overlap or are beyond bit {8 * WORD - 1}")
            if not 0 <= register.reset < 1 << 8 * WORD or (register.reset and register.access != "RW"):
                raise ValueError(
                    f"reset value {register.reset} of {register.name}: only RW registers have one, of 32 bits"
                )
            if register.access in ("W1C", "W1S") and any(item.width > 1 for item in register.fields):
                raise ValueError(f"a field of {register.name} has more than one bit: it is set and cleared as one")

    def __iter__(self) -> Iterator[Register]:
        return iter(self.registers)

    def __getitem__(self, name: str) -> Register:
        for register in self.registers:
            if register.name == name:
                return register
        raise KeyError(name)

    def accessed(self, *access: Access) -> tuple[Register, ...]:
        """Registers with one of these accesses, without the constant `SIGNATURE`."""
        return tuple(item for item in self.registers if item.access in access and item.name != SIGNATURE)

    @property
    def events(self) -> tuple[tuple[Register, RegisterField], ...]:
        """Events of the hardware: the fields of all W1C registers."""
        return tuple((register, item) for register in self.accessed("W1C") for item in register.fields)

    def enable(self, register: Register) -> Register | None:
        """Register that enables the interrupt of a W1C register, or None."""
        return next((item for item in self.registers if item.name == register.name + ENABLE), None)

    def canonical(self) -> dict[str, Any]:
        """See `Register.canonical`."""
        codes = {kind.__name__.lower(): {code.name.lower(): code.value for code in kind} for kind in self.codes}
        return {"registers": [register.canonical() for register in self.registers], "codes": codes}


def c_header(registers: RegisterMap, memory_bits: int = 0) -> str:
    """C header of offsets, masks and shifts of fields, codes, and the bits of a memory address, if not 0."""
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
    if memory_bits:
        lines += ["", f"#define {prefix}_MEMORY_BITS {memory_bits}u /* bits of a byte address in memory */"]
    for codes in registers.codes:
        kind = codes.__name__.upper()
        lines += ["", f"enum {registers.name}_{kind.lower()} {{"]
        lines += [f"  {prefix}_{kind}_{code.name} = {code.value}," for code in codes]
        lines.append("};")
    return "\n".join([*lines, "", f"#endif /* {prefix}_H */", ""])


def markdown(registers: RegisterMap) -> str:
    """Markdown tables: registers with their fields, then each kind of code."""
    lines = ["| offset | name | access | |", "|---|---|---|---|"]
    for register in registers:
        lines.append(f"| 0x{register.offset:02X} | `{register.name}` | {register.access} | {register.summary} |")
        for item in register.fields:
            lines.append(f"| | `{item.name}` | {item.place} | {item.summary} |")
    for codes in registers.codes:
        lines += ["", f"| code | {codes.__name__.lower()} |", "|---|---|"]
        lines += [f"| {code.value} | `{code.name.lower()}` |" for code in codes]
    return "\n".join([*lines, ""])
