"""Fit of a core on a board by its spec: blocks of RAM and DSPs, and the settings that make it fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..golden.cores.core import CoreSpec
from ..golden.cores.fit import remedies
from ..golden.errors import UserError
from .board import Board


def needs(spec: CoreSpec, board: Board) -> dict[str, float]:
    """Count the resources that the emitted core asks for: ``bram36`` in halves, ``uram``, ``dsp``."""
    blocks = spec.memory_plan(board.fabric).blocks
    return {"bram36": blocks.bram36, "uram": blocks.uram, "dsp": spec.dsps}


def lacks(spec: CoreSpec, board: Board) -> list[str]:
    """Name the resources of `needs` of which a board has too few; none where the core fits."""
    return [name for name, count in needs(spec, board).items() if count > board.resources[name]]


def remedies_on(spec: CoreSpec, board: Board) -> list[dict[str, Any]]:
    """Find changes of settings with which a core fits on a board, see `golden.cores.fit.remedies`."""
    return remedies(spec, lambda changed: not lacks(changed, board))


def remedy_text(spec: CoreSpec, found: Sequence[Mapping[str, Any]]) -> str:
    """Say what makes a core fit, as options of the command line."""
    if not found:
        tried = ", ".join(name for name, changes in spec.smaller().items() if changes)
        return f"no smaller {tried} makes it fit: take a smaller network"
    options = (" ".join(f"--set {name}={str(value).lower()}" for name, value in changes.items()) for changes in found)
    return f"it fits with {', or with '.join(options)}"


def refuse_lack(spec: CoreSpec, board: Board) -> None:
    """Refuse a core that does not fit on a board.

    Raises
    ------
    UserError
        With the numbers, and the settings with which it fits.
    """
    needed = needs(spec, board)
    if missing := lacks(spec, board):
        counts = ", ".join(f"{needed[name]:g} {name.upper()} of {board.resources[name]}" for name in missing)
        text = remedy_text(spec, remedies_on(spec, board))
        raise UserError(f"{spec.name} does not fit on the {board.name}: it needs {counts}; {text}")
