"""`fabtune list`."""

from __future__ import annotations

from typing import Any

import click

from ...display import show_json, show_table
from ...options import SectionedCommand, as_json, block, refuse_options, section, spec_of


@click.command(cls=SectionedCommand, short_help="List the blocks, or parameters, ports and registers of one.")
@section("Block", block(required=False))
@as_json
def command(
    block: str | None, settings: tuple[str, ...], preset: str | None, as_json: bool, **own_network: Any
) -> None:
    """List all blocks, or parameters, ports and registers of a block."""
    from ....golden.description import describe, tables
    from ....golden.registry import BLOCKS

    if block is None:
        refuse_options(("preset", "settings", *own_network), "no BLOCK")
        if as_json:
            show_json({name: _entry(describe(kind())) for name, kind in BLOCKS.items()})
        else:
            blocks = ((name, kind.summary, ", ".join(kind.presets)) for name, kind in BLOCKS.items())
            show_table(("block", "what it is", "presets"), blocks)
        return
    spec = spec_of(block, settings, preset, **own_network)
    if as_json:
        show_json(describe(spec))
        return
    click.echo(f"{block}: {spec.summary}")
    for columns, rows in tables(spec):
        show_table(columns, rows)


def _entry(description: dict[str, Any]) -> dict[str, Any]:
    values = {path: about["value"] for path, about in description["parameters"].items()}
    return {"summary": description["summary"], "parameters": values, "presets": description["presets"]}
