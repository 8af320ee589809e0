"""Summary of mutation campaigns: a table of their records, as in docs/mutation.md."""

from __future__ import annotations

from pathlib import Path

from ..golden.errors import UserError
from ..golden.registry import BLOCKS
from .record import Result, Score, read_record, score_of

_COLUMNS = ("faults", "killed", "equivalent", "undecided", "survived")
_VERSIONS = ("version of the RTL", "version of the bench")
"""Header digests of the sources that the campaign measured."""
_DIGITS = 8
"""Digits shown of a digest."""


def summary(folder: Path) -> str:
    """Markdown table of a folder's campaign records, with digests of RTL and bench, and a list of all undetected
    faults.

    Raises
    ------
    UserError
        If the folder has no record, or a file is not a record.
    """
    found: dict[str, list[Result]] = {}
    versions: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        campaign, results = read_record(path)
        found[campaign["block"]] = results
        versions[campaign["block"]] = [f"`{str(campaign.get(key, '-'))[:_DIGITS]}`" for key in _VERSIONS]
    if not found:
        raise UserError(f"there is no record in {folder}: run fabtune mutate BLOCK")
    ordered = [name for name in BLOCKS if name in found] + sorted(set(found) - set(BLOCKS))
    titles = [title.removeprefix("version of the ") for title in _VERSIONS]
    lines = [_row("block", *_COLUMNS, *titles), f"|---{'|---:' * len(_COLUMNS)}{'|---' * len(titles)}|"]
    lines += [_row(f"`{name}`", *_counts(score_of(found[name])), *versions[name]) for name in ordered]
    lines.append(_row("all", *_counts(score_of(each for name in ordered for each in found[name])), *[""] * len(titles)))
    unseen = [
        f"- `{name}`, {each.status}: {each.fault}"
        for name in ordered
        for each in sorted(found[name], key=lambda each: each.number)
        if each.status in ("survived", "undecided")
    ]
    return "\n".join([*lines, *(["", *unseen] if unseen else [])])


def _counts(score: Score) -> list[str]:
    return [str(getattr(score, column)) for column in _COLUMNS]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
