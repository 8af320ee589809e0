"""`fabtune table`: measure, and draw what there are curves of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from . import table_of
from .options import Options, Rows


def measure(name: str, plot: Path | None, progress: Callable[[str], None], **options: Any) -> Rows:
    """A table by name, and its curves in a picture if that is asked for.

    Raises
    ------
    UserError
        If there is no such table, or a picture is asked of one without curves.
    """
    table = table_of(name)
    if plot:
        from ..curve import check, draw_curves

        check(plot)
    result = table(Options(progress=progress, **options))
    if plot:
        if "curves" not in result:
            raise UserError(f"{name} has no curves: leave --plot out")
        draw_curves(result["curves"], result["title"], plot)
    return result
