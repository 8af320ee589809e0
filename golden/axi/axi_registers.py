"""`axi_registers`: the core's registers on AXI4-Lite."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..block import ANSWERING, HOST, BusSpec, Phase, Step
from ..errors import UserError
from .register_map import REGISTERS, WORD

OKAY, SLVERR = 0, 2
SHOWN = tuple(register.name for register in REGISTERS if register.access == "R" and register.name != "signature")
"""Registers that the core drives."""
KEPT = tuple(register.name for register in REGISTERS if register.access == "RW")
"""Registers that the host writes and the core reads."""
STROBES = (0b1111, 0b0001, 0b0010, 0b0100, 0b1000, 0b0011, 0b1100, 0b0110, 0b0111, 0b1110)


class Model:
    """The registers, one access at a time.

    Attributes
    ----------
    wires : dict of str to int
        What the core sees, and what it drives.
    strobes : Counter
        Cycles in which `command_strobe` was high.
    """

    def __init__(self, signature: int) -> None:
        self._signature = signature
        self._by_word = {register.offset // WORD: register for register in REGISTERS}
        self.reset()

    def reset(self) -> None:
        """Forget all."""
        self.wires = dict.fromkeys((*KEPT, *SHOWN, "command", "finished"), 0)
        self._pending = 0
        self.strobes = Counter({"command_strobe": 0})

    def step(self, step: Step) -> tuple[int, int]:
        """Response and value of a step, 0 where it has none."""
        if isinstance(step.at, int):
            return self.read(step.at) if step.kind == "read" else (self.write(step.at, step.value, step.strobe), 0)
        if step.kind == "set":
            self.wires[step.at] = step.value
        elif step.kind == "pulse" and step.at == "finished":
            self._pending = 1
        elif step.kind == "count":
            return 0, self.strobes[step.at]
        elif step.at == "interrupt_line":
            return 0, self._pending & self.wires["interrupt_enable"]
        return 0, self.wires[step.at]

    def write(self, address: int, value: int, strobe: int) -> int:
        """The response."""
        register = self._by_word.get(address // WORD)
        if register is None or register.access == "R":
            return SLVERR
        mask = sum(0xFF << 8 * lane for lane in range(WORD) if strobe >> lane & 1)
        if register.access == "W":
            self.wires[register.name] = value & mask
            self.strobes["command_strobe"] += 1
        elif register.access == "RW":
            self.wires[register.name] = self.wires[register.name] & ~mask | value & mask
        else:
            self._pending &= ~(value & mask)
        return OKAY

    def read(self, address: int) -> tuple[int, int]:
        """Response and value."""
        register = self._by_word.get(address // WORD)
        if register is None:
            return SLVERR, 0
        if register.name == "signature":
            return OKAY, self._signature
        if register.access == "W1C":
            return OKAY, self._pending
        return OKAY, 0 if register.access == "W" else self.wires[register.name]


@dataclass(frozen=True, kw_only=True)
class AxiRegistersSpec(BusSpec):
    """Parameters of `axi_registers`.

    Parameters
    ----------
    signature : int
        What the register of this name reads as.
    """

    name: ClassVar[str] = "axi_registers"
    summary: ClassVar[str] = "the fine-tuning core's registers on AXI4-Lite"
    buses: ClassVar[dict[str, str]] = {"bus": "s_axi_control"}
    wires: ClassVar[tuple[str, ...]] = (*KEPT, "command", "command_strobe", "interrupt_line")
    input_wires: ClassVar[tuple[str, ...]] = (*SHOWN, "finished")

    signature: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.signature < 1 << 32:
            raise UserError(f"signature = {self.signature} does not fit into 32 bits")

    def scenario(self, rng: np.random.Generator, words: int) -> list[Phase]:
        """Random accesses, one in ten to no register, while what the core drives changes; a second time unreset."""
        model = Model(self.signature)
        return [self._phase(rng, model, max(words // 4, 8), reset) for reset in (True, False)]

    def _phase(self, rng: np.random.Generator, model: Model, count: int, reset: bool) -> Phase:
        model.strobes.clear()
        known = [register.offset for register in REGISTERS]
        steps: list[Step] = [Step("read", offset) for offset in known]
        kinds: tuple[Literal["write", "read", "set", "pulse", "get"], ...] = ("write", "read", "set", "pulse", "get")
        while len(steps) < count:
            kind = kinds[rng.choice(5, p=(0.4, 0.3, 0.1, 0.05, 0.15))]
            offset = int(rng.choice(known)) if rng.random() < 0.9 else WORD * int(rng.integers(64))
            value = int(rng.integers(1 << 32))
            if kind in ("write", "read"):
                steps.append(Step(kind, offset, value, int(rng.choice(STROBES))))
            elif kind == "set":
                steps.append(Step(kind, str(rng.choice(SHOWN)), value))
            elif kind == "pulse":
                steps.append(Step(kind, "finished"))
            else:
                steps.append(Step(kind, str(rng.choice([*KEPT, "command", "interrupt_line"]))))
        steps.append(Step("count", "command_strobe"))
        answers = [answer for step in steps for answer in [model.step(step)] if step.kind in ANSWERING]
        responses, values = np.array(answers).T
        expected = {HOST: {"response": responses[:, None], "value": values[:, None]}}
        return Phase({}, expected, reset, script=tuple(steps), midway=(len(steps) // 2, 0, 12))
