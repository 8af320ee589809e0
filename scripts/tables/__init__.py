"""Tables of the papers, measured. Each is imported when it is asked for: PyTorch takes a while."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from ...golden.errors import UserError
from .options import Options, Rows

TABLES = {
    "pezo-3": ("zeroth", "pezo_3"),
    "pezo-4": ("zeroth", "pezo_4"),
    "pezo-6": ("pezo", "pezo_6"),
    "pezo-fig3": ("pezo_figures", "pezo_fig3"),
    "pezo-fig4": ("pezo_figures", "pezo_fig4"),
    "instantft-1": ("instantft", "instantft_1"),
    "instantft-7a": ("instantft", "instantft_7a"),
    "skip2-4": ("skip2", "skip2_4"),
    "skip2-6": ("skip2", "skip2_6"),
    "fedspzo": ("fedspzo", "fedspzo"),
    "sparse-1": ("sparse", "sparse_1"),
}


def table_of(name: str) -> Callable[[Options], Rows]:
    """The function that measures a table."""
    if name not in TABLES:
        raise UserError(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
    module, function = TABLES[name]
    found: Callable[[Options], Rows] = getattr(import_module(f".{module}", __name__), function)
    return found
