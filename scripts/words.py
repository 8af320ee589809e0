"""Words of the command line that are refused before any work, without a large import; the nearest known words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from ..golden.errors import UserError


def nearest(word: str, known: Iterable[str]) -> str:
    """Question after the most similar known word, to end a message; empty if no word is similar."""
    matches = get_close_matches(word, known, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def refuse_unknown_task(data: str) -> None:
    """Refuse a name of samples that is no task: a `UserError`."""
    from ..golden.datasets.tasks import TASKS
    from ..golden.train.text.tasks import TEXT_TASKS, is_text

    if not (data in TASKS or data.startswith("npz:") or is_text(data)):
        known = f"{', '.join(TASKS)}; of text, for zeroth order: {', '.join(TEXT_TASKS)}"
        raise UserError(f"there is no task {data!r}; there are: {known}")


def _refuse_unknown_board(name: str) -> None:
    from ..boards.board import board

    board(name)


def _refuse_rate(rate: float) -> None:
    from ..golden.train.learning_rate import refuse_rate

    refuse_rate(rate)


REFUSALS: dict[str, Callable[[Any], None]] = {
    "--board": _refuse_unknown_board,
    "--data": refuse_unknown_task,
    "--rate": _refuse_rate,
}
"""Refusal of an option's value, for every command with the option."""
