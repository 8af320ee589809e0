"""Results on standard output: JSON objects and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click


def show_json(value: Any) -> None:
    """Print a JSON object; a ValueError for NaN and infinity, which JSON lacks."""
    click.echo(json.dumps(value, allow_nan=False))


def show_result(value: Any, as_json: bool, lines: Callable[[], Iterable[object]]) -> None:
    """Print a result: one JSON object, or lines, which may follow a table."""
    if as_json:
        show_json(value)
        return
    for line in lines():
        click.echo(line)


def show_files(
    folder: Path, names: Sequence[str], as_json: bool, facts: Mapping[str, Any] | None = None, lines: Iterable[str] = ()
) -> None:
    """Print the files of a folder: one JSON object with ``facts``, or paths, and ``lines`` on standard error."""
    value = {"folder": str(folder), "files": names, **(facts or {})}
    show_result(value, as_json, lambda: [folder / name for name in names])
    for line in () if as_json else lines:
        click.echo(line, err=True)


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str | None = None,
    piped_width: int = 120,
    lines: bool = False,
) -> None:
    """Print a table; ``lines`` separates rows, ``piped_width`` is the line length without a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title, show_lines=lines)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else piped_width).print(table)


show_wide_table = partial(show_table, piped_width=400)
"""`show_table` with columns of any width in a pipe."""
