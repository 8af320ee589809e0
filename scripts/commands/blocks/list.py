"""`fabtune list`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import click

from ...display import show_json, show_table
from ...options import SectionedCommand, as_json

if TYPE_CHECKING:
    from ....golden.block import Spec


@click.command(cls=SectionedCommand, short_help="List the blocks, their parameters and presets.")
@as_json
def command(as_json: bool) -> None:
    """List the blocks, their parameters and presets."""
    from ....golden.registry import BLOCKS
    from ....golden.settings import fields_of

    listing = {name: _entry(kind(), fields_of(kind)) for name, kind in BLOCKS.items()}
    if as_json:
        show_json(listing)
        return
    rows = []
    for name, entry in listing.items():
        parameters = "\n".join(f"{path} = {_short(value)}" for path, value in entry["parameters"].items())
        rows.append((name, str(entry["summary"]), parameters, "\n".join(entry["presets"])))
    show_table(("block", "what it is", "parameters", "presets"), rows, lines=True)


def _entry(spec: Spec, fields: Iterable[str]) -> dict[str, Any]:
    """Describe a block by its spec with default values; `fields` are dotted paths."""
    parameters = {path: _plain(attrgetter(path)(spec)) for path in fields}
    return {"summary": spec.summary, "parameters": parameters, "presets": spec.presets}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list) and len(value) > 4 else str(value)
