"""Registers, commands and errors of a core: the common ones of the shell, and its own."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

from ..axi.register_map import SIGNATURE, WORD, Register, RegisterField, RegisterMap
from ..errors import UserError

LAYOUT_VERSION = 2
"""Version of the memory images and of the commands' meaning."""


RESET_LATENCY = 2
"""Cycles from `aresetn` to the reset of all registers, and from its end to the first possible access."""
HIGH = "_high"
"""Suffix of the register with bits 63:32."""


@dataclass(frozen=True)
class Setting:
    """Register that the host writes before a command, and the trainer reads during the command.

    Parameters
    ----------
    name : str
        An identifier.
    summary : str
        One line.
    fields : tuple of RegisterField
        Fields of a register with several numbers.
    reset : int
        Value after reset.
    group : int
        Position in the map. An option's registers have a later group, after all counters of earlier groups, so an
        option does not move other registers.
    """

    name: str
    summary: str
    fields: tuple[RegisterField, ...] = ()
    reset: int = 0
    group: int = 0

    @property
    def registers(self) -> tuple[str, ...]:
        """Names of the registers, from the lowest bits up."""
        return (self.name,)

    def words(self, value: int) -> dict[str, int]:
        """Words of a value by register; raises `UserError` for a negative or too large value."""
        bits = 8 * WORD * len(self.registers)
        if not 0 <= value < 1 << bits:
            raise UserError(f"{self.name} = {value} is not in 0 to 2**{bits} - 1")
        return {name: value >> 8 * WORD * index & (1 << 8 * WORD) - 1 for index, name in enumerate(self.registers)}


@dataclass(frozen=True)
class Address(Setting):
    """Byte address of an image in memory: 64 bits in two registers, ``NAME`` and ``NAME_high``.

    Commands are refused with ``BAD_ADDRESS`` if the address is no multiple of 16, or the image ends beyond the core's
    address bits, see `CoreSpec.image_beats`.

    Parameters
    ----------
    commands : tuple of IntEnum
        Commands that use the address.
    """

    commands: tuple[IntEnum, ...] = ()

    @property
    def registers(self) -> tuple[str, ...]:
        return (self.name, self.name + HIGH)


@dataclass(frozen=True)
class Counter:
    """Register that counts from 0 during a command.

    Parameters
    ----------
    name : str
        An identifier.
    summary : str
        One line.
    width : int
        Bits of the increment in one cycle.
    group : int
        See `Setting`.
    """

    name: str
    summary: str
    width: int = 1
    group: int = 0


@dataclass(frozen=True)
class CoreRegisters:
    """Registers, commands and error codes of a core.

    Parameters
    ----------
    name : str
        Prefix in C.
    commands : type of IntEnum
        Codes from 1 up, without gaps.
    errors : type of IntEnum
        Codes from 1 up, with ``BAD_COMMAND`` and, if the core has addresses, ``BAD_ADDRESS`` for the shell.
    settings : tuple of Setting
        Addresses first.
    counters : tuple of Counter

    Raises
    ------
    ValueError
        If commands have gaps, ``BAD_COMMAND`` or ``BAD_ADDRESS`` is missing, or the register map is refused.
    """

    name: str
    commands: type[IntEnum]
    errors: type[IntEnum]
    settings: tuple[Setting, ...] = ()
    counters: tuple[Counter, ...] = ()
    map: RegisterMap = field(init=False, repr=False)
    """All registers: the shell's, settings, two words of the cycle counter, counters, later groups, and `RESET`."""

    def __post_init__(self) -> None:
        codes = [code.value for code in self.commands]
        if sorted(codes) != list(range(1, len(codes) + 1)):
            raise ValueError(f"commands of {self.name} are {codes}: give codes from 1 up, without gaps")
        if "BAD_COMMAND" not in self.errors.__members__:
            raise ValueError(f"errors of {self.name} lack BAD_COMMAND, which the shell reports")
        if self.addresses and "BAD_ADDRESS" not in self.errors.__members__:
            raise ValueError(f"errors of {self.name} lack BAD_ADDRESS, which the shell reports")
        object.__setattr__(self, "map", RegisterMap(self.name, self._registers(), (self.commands, self.errors)))

    @cached_property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(item for item in self.settings if isinstance(item, Address))

    @cached_property
    def setting_names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.settings)

    @cached_property
    def counter_names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.counters)

    @property
    def error_bits(self) -> int:
        return max(self.errors).bit_length()

    def _registers(self) -> tuple[Register, ...]:
        rows = [item for item in SHELL if item is not RESET]
        groups = {0} | {item.group for item in self.settings} | {item.group for item in self.counters}
        for group in sorted(groups):
            for item in (item for item in self.settings if item.group == group):
                for index, name in enumerate(item.registers):
                    summary = f"bits 63:32 of `{item.name}`" if index else item.summary
                    reset = item.words(item.reset)[name]
                    rows.append(Register(name, WORD * len(rows), "RW", summary, item.fields, reset, locked=True))
            for name, bits in () if group else (("cycles_low", "31:0"), ("cycles_high", "63:32")):
                rows.append(Register(name, WORD * len(rows), "R", f"clock cycles of the last command, bits {bits}"))
            for counter in (counter for counter in self.counters if counter.group == group):
                rows.append(Register(counter.name, WORD * len(rows), "R", counter.summary))
        return (*rows, RESET)


RESET = Register(
    "soft_reset",
    0xFC,
    "W1S",
    "returns the core to its state after `aresetn`, at any time",
    (RegisterField("pending", 0, 1, "write 1 to ask for it; reads 1 until it is complete"),),
)
"""Last word of the map, so that it does not move the core's registers."""
SHELL = (
    Register("command", 0x00, "W", "a code starts a command", locked=True),
    Register(
        "status",
        0x04,
        "R",
        "where the core is",
        (
            RegisterField("busy", 0, 1, "a command is running"),
            RegisterField("done", 1, 1, "the last command has ended"),
            RegisterField("error", 2, 1, "it ended with an error"),
            RegisterField("error_code", 8, 8, "which one"),
        ),
    ),
    Register(
        "interrupt_enable",
        0x08,
        "RW",
        "what raises the interrupt",
        (RegisterField("finished", 0, 1, "the end of a command, done or error"),),
    ),
    Register(
        "interrupt",
        0x0C,
        "W1C",
        "what has happened, whether it raises the interrupt or not",
        (RegisterField("finished", 0, 1, "a command has ended; write 1 to clear"),),
    ),
    Register("error_address", 0x10, "R", "byte address of the failing burst, or the offending value"),
    Register(f"error_address{HIGH}", 0x14, "R", "bits 63:32 of `error_address`"),
    Register(SIGNATURE, 0x18, "R", "identifies the configuration the core was generated with"),
    RESET,
)
"""Registers of every core; all but `RESET` precede the core's registers."""


def signature_of(parameters: dict[str, Any], registers: RegisterMap, layout_version: int = LAYOUT_VERSION) -> int:
    """Digest of all that host and core must agree on: 32 bits of SHA-256 over canonical JSON.

    The digest is the same in every process and on every machine.

    Parameters
    ----------
    parameters : dict
        Parameters of the core in JSON types; a network as its description.
    registers : RegisterMap
        Register map of the core; its prose does not count.
    layout_version : int
        See `LAYOUT_VERSION`.
    """
    data = {"layout": layout_version, "parameters": parameters, "registers": registers.canonical()}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
