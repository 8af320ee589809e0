"""Fit of a network on a preset of a core: cycles and memories, or why it does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..nn.array.mapping import Mapping
from .core import CoreSpec


@dataclass(frozen=True)
class CoreFit:
    """A network on a preset of a core.

    Parameters
    ----------
    core, preset : str
    refusal : str
        Why it cannot be there; empty where it can.
    spec : CoreSpec or None
        The core for the network.
    forward : Mapping or None
        Network on the core's array.
    memories : dict of str to int
        Bits on the chip, by what they hold.
    """

    core: str
    preset: str
    refusal: str
    spec: CoreSpec | None = None
    forward: Mapping | None = None
    memories: dict[str, int] = field(default_factory=dict)

    @property
    def cycles(self) -> int:
        """Words that the array takes for one sample forward; each is a cycle."""
        return self.forward.cycles if self.forward else 0
