"""Activation units of the array: cycles and DSPs; each column has one of every kind in its network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...fixed import Q8_16, Format
from ...models.activations import GATE_DIVISOR, Nonlinearity
from ..arithmetic.forward import Reciprocal
from ..arithmetic.multipliers import takes_dsp
from . import latency


@dataclass(frozen=True)
class ActivationUnit(ABC):
    """Unit in the path of the rounded sums of all stages.

    Parameters
    ----------
    constants : tuple of int
        `Nonlinearity.constant` of its activations, ascending.

    Attributes
    ----------
    kind : str
        `Nonlinearity.unit`, and the name of component and port in RTL.
    latency : int
        Cycles from input to output.
    """

    kind: ClassVar[str]
    latency: ClassVar[int]
    constants: tuple[int, ...]

    @property
    @abstractmethod
    def dsps(self) -> int:
        """DSPs a column."""

    def choice(self, activation: Nonlinearity | None) -> int:
        """Number of an activation's constant from 1; 0 for other activations, whose values pass unchanged."""
        if activation is None or activation.unit != self.kind:
            return 0
        return 1 + self.constants.index(activation.constant)


class LeakyUnit(ActivationUnit):
    """Rounded product of a negative value and a slope."""

    kind = "leaky"
    latency = latency.OPERANDS + latency.PRODUCT + latency.ROUNDING

    @property
    def dsps(self) -> int:
        return int(len(self.constants) > 1 or any(takes_dsp(Q8_16.width, slope) for slope in self.constants))


class HardSwishUnit(ActivationUnit):
    """Rounded product of a value and its gate, a quotient by `GATE`."""

    kind = "hard_swish"
    GATE: ClassVar[Reciprocal] = Reciprocal(GATE_DIVISOR, Format(2, Q8_16.fraction))
    latency = GATE.latency + latency.PRODUCT + latency.ROUNDING
    dsps = 1 + GATE.dsps


UNITS: tuple[type[ActivationUnit], ...] = (LeakyUnit, HardSwishUnit)


def units_of(activations: Sequence[Nonlinearity | None]) -> tuple[ActivationUnit, ...]:
    """Units for these activations, in the order of `UNITS`."""
    needed = {(one.unit, one.constant) for one in activations if one is not None and one.unit}
    found = ((unit, tuple(sorted(constant for kind, constant in needed if kind == unit.kind))) for unit in UNITS)
    return tuple(unit(constants) for unit, constants in found if constants)
