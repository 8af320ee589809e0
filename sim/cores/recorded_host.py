"""Record the register accesses of the host driver as the script of a bench."""

from __future__ import annotations

import numpy as np

from ...golden.axi.register_map import RegisterMap
from ...golden.fixed import Integers
from ..phase import ANSWERING, Step

WHOLE_WORD, NOTHING = 0xF, 0x0
"""Strobes of a read: all four bytes are compared, or none."""


class RecordedHost:
    """Registers and interrupt of a core for `boards.host.driver.Core`, which answer what golden expects.

    Every access becomes a `Step`. A register whose value golden does not compute, such as the counter of cycles,
    answers 0, and the bench reads it without a comparison.

    Parameters
    ----------
    registers : RegisterMap
        Registers of the core; it has `status` and `interrupt`.
    patience : int
        Cycles that the bench waits for an interrupt.

    Attributes
    ----------
    steps : list of Step
        Recorded so far.
    """

    def __init__(self, registers: RegisterMap, patience: int) -> None:
        self.steps: list[Step] = []
        self._registers = {register.offset: register.name for register in registers}
        self._done = registers["status"].field("done").mask
        self._interrupt = registers["interrupt"].offset
        self._patience = patience
        self._answers: list[int] = []
        self._expected: dict[str, int | None] = {"status": 0}

    def expect(self, **answers: int | None) -> None:
        """Set what registers answer from here on, by name; None where golden does not know."""
        self._expected |= answers

    def read(self, offset: int) -> int:
        """Record a read of the register at a byte offset; return what golden expects."""
        expected = self._expected.get(self._registers[offset])
        self._add(Step("read", offset, strobe=NOTHING if expected is None else WHOLE_WORD), expected or 0)
        return expected or 0

    def write(self, offset: int, value: int) -> None:
        """Record a write of the register at a byte offset."""
        self._add(Step("write", offset, value))

    def interrupt(self) -> None:
        """Record the wait for the interrupt, which is pending afterwards; the command has ended without error."""
        self._add(Step("until", "interrupt", self._patience))
        self._add(Step("read", self._interrupt), 1)
        self._expected["status"] = self._done

    def quiet(self) -> None:
        """Record a look at the interrupt wire, which is low."""
        self._add(Step("get", "interrupt"))

    def take(self) -> tuple[tuple[Step, ...], dict[str, Integers]]:
        """Return the steps so far with their expected answers, columns ``response`` and ``value``, and begin anew."""
        steps, values = tuple(self.steps), np.array(self._answers, np.int64)[:, None]
        self.steps, self._answers = [], []
        return steps, {"response": np.zeros_like(values), "value": values}

    def _add(self, step: Step, value: int = 0) -> None:
        self.steps.append(step)
        if step.kind in ANSWERING:
            self._answers.append(value)
