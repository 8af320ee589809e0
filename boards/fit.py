"""Fit of a core on a board, computed from the spec: block RAMs, DSPs, and settings that make a core fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..golden.cores.core import CoreSpec
from ..golden.cores.fit import remedies
from ..golden.errors import UserError
from .board import BOARDS, Board


@dataclass(frozen=True)
class BoardFit:
    """Fit of a core on a board."""

    spec: CoreSpec
    board: Board

    @cached_property
    def needs(self) -> dict[str, float]:
        """Resources of the emitted core: ``bram36`` (a multiple of 0.5), ``uram``, ``dsp``."""
        blocks = self.spec.memory_plan(self.board.fabric).blocks
        return {"bram36": blocks.bram36, "uram": blocks.uram, "dsp": self.spec.dsps}

    @property
    def lacks(self) -> dict[str, float]:
        """Needs above the board's resources."""
        return {name: count for name, count in self.needs.items() if count > self.board.resources[name]}

    @cached_property
    def remedies(self) -> list[dict[str, Any]]:
        """Changes of settings; each alone makes the core fit (see `golden.cores.fit.remedies`). Empty for a core that
        fits.
        """
        if not self.lacks:
            return []
        return remedies(self.spec, lambda changed: not BoardFit(changed, self.board).lacks)

    @property
    def text(self) -> str:
        """Message with the exceeded resources and the settings that fit, as options; empty for a core that fits."""
        if not self.lacks:
            return ""
        counts = (f"{count:g} {name.upper()} of {self.board.resources[name]}" for name, count in self.lacks.items())
        if self.remedies:
            advice = f"it fits with {', or with '.join(map(_options, self.remedies))}"
        else:
            tried = [name for name, changes in self.spec.smaller().items() if changes]
            advice = f"no smaller {', '.join(tried)} makes it fit: take a smaller network"
        return f"does not fit on the {self.board.name}: it needs {', '.join(counts)}; {advice}"


def fits_on_boards(spec: CoreSpec) -> dict[str, BoardFit]:
    """Fit of a core on each board."""
    return {name: BoardFit(spec, board) for name, board in BOARDS.items()}


def _options(changes: Mapping[str, Any]) -> str:
    return " ".join(f"--set {name}={str(value).lower()}" for name, value in changes.items())


def refuse_lack(spec: CoreSpec, board: Board) -> None:
    """Refuse a core that does not fit on a board: a `UserError` with the counts and the settings that fit."""
    if text := BoardFit(spec, board).text:
        raise UserError(f"{spec.name} {text}")
