"""Summary of campaigns: the table of ``docs/verification.md``, made of their records."""

from __future__ import annotations

from pathlib import Path

from ...golden.errors import UserError
from ...golden.registry import BLOCKS
from .record import Result, Score, read_record, score_of

_COLUMNS = ("faults", "killed", "equivalent", "undecided", "survived")


def summary(folder: Path) -> str:
    """Write a table of the campaigns whose records lie in a folder, and each fault that was not seen, in Markdown.

    Raises
    ------
    UserError
        If there is no record, or a file that is none.
    """
    found: dict[str, list[Result]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        campaign, results = read_record(path)
        found[campaign["block"]] = results
    if not found:
        raise UserError(f"there is no record in {folder}: run fabtune mutate BLOCK")
    ordered = [name for name in BLOCKS if name in found] + sorted(set(found) - set(BLOCKS))
    scores = {f"`{name}`": score_of(found[name]) for name in ordered}
    scores["all"] = score_of(one for name in ordered for one in found[name])
    lines = [f"| {' | '.join(('block', *_COLUMNS))} |", f"|---{'|---:' * len(_COLUMNS)}|"]
    lines += [_row(name, score) for name, score in scores.items()]
    unseen = [
        f"- `{name}`, {one.status}: {one.fault}"
        for name in ordered
        for one in sorted(found[name], key=lambda one: one.number)
        if one.status in ("survived", "undecided")
    ]
    return "\n".join([*lines, *(["", *unseen] if unseen else [])])


def _row(name: str, score: Score) -> str:
    return f"| {' | '.join((name, *(str(getattr(score, column)) for column in _COLUMNS)))} |"
