"""Tables of the papers, measured. A table's module is imported when the table is measured: PyTorch takes a while."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ...golden.errors import UserError
from .options import Options, Rows

TRIALS = ("data_dir", "seeds", "processes")
TEXT = (*TRIALS, "model", "tasks", "shots", "steps", "rate", "plot")
"""Options of tables whose networks are trained, and of those that tune a transformer on text."""

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
"""By name: the module, whose function has the name with ``_`` for ``-``, and the options that the table takes."""


def table_of(name: str) -> Callable[[Options], Rows]:
    """Import the function that measures a table.

    Raises
    ------
    UserError
        If there is no such table.
    """
    module, _ = _entry(name)
    found: Callable[[Options], Rows] = getattr(import_module(f".{module}", __name__), name.replace("-", "_"))
    return found


def options_of(name: str) -> tuple[str, ...]:
    """List the options of ``fabtune table`` that a table takes: fields of `Options`, and ``plot``.

    Raises
    ------
    UserError
        If there is no such table.
    """
    return _entry(name)[1]


def _entry(name: str) -> tuple[str, tuple[str, ...]]:
    if name not in TABLES:
        raise UserError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]
