"""Measured tables of the papers. A table's module is imported on demand, because importing PyTorch is slow."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ...golden.errors import UserError
from .options import Options, Rows

TRIALS = ("data_dir", "seeds", "processes")
"""Options of tables with trained networks."""
TEXT = (*TRIALS, "model", "tasks", "shots", "steps", "rate", "plot")
"""Options of tables that tune a transformer on text."""

TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "pezo-3": ("zeroth", TEXT),
    "pezo-4": ("zeroth", TEXT),
    "pezo-6": ("pezo", ()),
    "pezo-core": (".cores.zotrain.pezo_core", ("preset", "seeds", "steps", "processes")),
    "pezo-fig3": ("pezo_figures", TEXT),
    "pezo-fig4": ("pezo_figures", TEXT),
    "instantft-1": ("instantft", ()),
    "instantft-7a": ("instantft", TRIALS),
    "skip2-4": ("skip2", TRIALS),
    "skip2-6": ("skip2", ()),
    "software": (".demo.software", ("data_dir",)),
    "fedspzo": ("fedspzo", TRIALS),
    "sparse-1": ("sparse", TEXT),
}
"""By name: module and options of a table; the module's function has the table's name with ``_`` for ``-``."""


def table_of(name: str) -> Callable[[Options], Rows]:
    """Import the function that measures a table; a `UserError` for an unknown table."""
    module, _ = _entry(name)
    function: Callable[[Options], Rows] = getattr(import_module(f".{module}", __name__), name.replace("-", "_"))
    return function


def options_of(name: str) -> tuple[str, ...]:
    """Options of ``fabtune table`` for a table: fields of `Options`, ``plot``; a `UserError` for an unknown table."""
    return _entry(name)[1]


def _entry(name: str) -> tuple[str, tuple[str, ...]]:
    if name not in TABLES:
        raise UserError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]
