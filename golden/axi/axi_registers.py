"""`axi_registers`: a core's registers on AXI4-Lite, from a register map."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

from ..block import BusSpec
from ..errors import UserError
from .register_map import SIGNATURE, WORD, RegisterMap

OKAY, SLVERR = 0, 2


def _exists(module: str) -> bool:
    with suppress(ModuleNotFoundError):  # the package around it may be missing
        return find_spec(module, __package__) is not None
    return False


def enabled_bits(strobe: int) -> int:
    """Mask of a word's bits enabled by its byte strobes; strobe bit 0 is the lowest byte."""
    return sum(0xFF << 8 * lane for lane in range(WORD) if strobe >> lane & 1)


class Model:
    """Model of the registers, one access at a time; `signature` is the value of the register of this name.

    Attributes
    ----------
    wires : dict of str to int
        Inputs and outputs on the core's side, by port name.
    strobes : Counter
        Cycles of each ``NAME_strobe``.
    """

    def __init__(self, registers: RegisterMap, signature: int) -> None:
        self._registers, self._signature = registers, signature
        self._by_word = {register.offset // WORD: register for register in registers}
        self.reset()

    def reset(self) -> None:
        self.wires = {item.name: item.reset for item in self._registers.accessed("RW", "R", "W", "W1S")} | {"locked": 0}
        self._pending = {item.name: 0 for item in self._registers.accessed("W1C")}
        self.strobes = Counter({f"{item.name}_strobe": 0 for item in self._registers.accessed("W")})

    def pulse(self, event: str) -> None:
        """Set an event's pending bit, as a cycle of the event's wire does; or, for `clear`, reset all registers."""
        if event == "clear":
            self.wires |= {item.name: item.reset for item in self._registers.accessed("RW", "W", "W1S")}
            self._pending = dict.fromkeys(self._pending, 0)
        for register, item in self._registers.events:
            self._pending[register.name] |= item.mask * (item.name == event)

    def line(self, name: str) -> int:
        """Level of the interrupt line ``NAME_line``: 1 if any bit of the register is pending and enabled."""
        enable = self._registers.enable(self._registers[name])
        enabled = self.wires[enable.name] if enable else -1
        return int(self._pending[name] & enabled != 0)

    def write(self, address: int, value: int, strobe: int) -> int:
        """Write the bytes of a word selected by `strobe`; return the response. `locked` protects locked registers."""
        register = self._by_word.get(address // WORD)
        if register is None or register.access == "R":
            return SLVERR
        if register.locked and self.wires["locked"]:
            return OKAY
        mask = enabled_bits(strobe)
        if register.access == "W":
            self.wires[register.name] = value & mask
            self.strobes[f"{register.name}_strobe"] += mask > 0
        elif register.access == "RW":
            self.wires[register.name] = self.wires[register.name] & ~mask | value & mask
        elif register.access == "W1S":
            self.wires[register.name] |= value & mask & sum(item.mask for item in register.fields)
        else:
            self._pending[register.name] &= ~(value & mask)
        return OKAY

    def read(self, address: int) -> tuple[int, int]:
        """Response and value of a read."""
        register = self._by_word.get(address // WORD)
        if register is None:
            return SLVERR, 0
        if register.name == SIGNATURE:
            return OKAY, self._signature
        if register.access == "W1C":
            return OKAY, self._pending[register.name]
        return OKAY, 0 if register.access == "W" else self.wires[register.name]


@dataclass(frozen=True, kw_only=True)
class AxiRegistersSpec(BusSpec):
    """Parameters of `axi_registers`.

    Parameters
    ----------
    registers : RegisterMap or str
        A `RegisterMap`, or the name of a core: `REGISTERS` of `golden/cores/NAME/registers.py` (instantft).
    signature : int
        Value of the register `signature`, 32 bits; a core's is a digest of its configuration.
    """

    name: ClassVar[str] = "axi_registers"
    summary: ClassVar[str] = "a core's registers on AXI4-Lite, from its register map"
    buses: ClassVar[dict[str, str]] = {"bus": "s_axi_control"}

    registers: RegisterMap | str = "instantft"
    signature: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.signature < 1 << 32:
            raise UserError(f"signature = {self.signature} does not fit into 32 bits")
        self.map  # noqa: B018 (an unknown name is refused here)

    @cached_property
    def map(self) -> RegisterMap:
        if isinstance(self.registers, RegisterMap):
            return self.registers
        module = f"..cores.{self.registers}.registers"
        if not self.registers.isidentifier() or not _exists(module):
            raise UserError(
                f"registers = {self.registers!r}: there is no core of this name with registers; instantft is one"
            )
        registers: RegisterMap = import_module(module, __package__).REGISTERS
        return registers

    @property
    def wires(self) -> tuple[str, ...]:  # type: ignore[override]
        """Outputs: settings, written words with their strobes, interrupt lines, set bits."""
        written = [name for item in self.map.accessed("W") for name in (item.name, f"{item.name}_strobe")]
        lines = [f"{item.name}_line" for item in self.map.accessed("W1C")]
        set_bits = [item.name for item in self.map.accessed("W1S")]
        return (*(item.name for item in self.map.accessed("RW")), *written, *lines, *set_bits)

    @property
    def input_wires(self) -> tuple[str, ...]:  # type: ignore[override]
        """Inputs: words that the host only reads, events, the lock, and the reset of all registers."""
        events = [event.name for _, event in self.map.events]
        return (*(item.name for item in self.map.accessed("R")), *events, "locked", "clear")
