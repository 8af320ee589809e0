"""Results on standard output: JSON objects and tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click


def show_json(value: Any) -> None:
    """Print a JSON object; a ValueError for NaN and infinity, which JSON lacks."""
    click.echo(json.dumps(value, allow_nan=False))


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
