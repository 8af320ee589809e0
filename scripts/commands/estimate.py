"""`fabtune estimate`."""

from __future__ import annotations

from pathlib import Path

import click

from ...golden.errors import UserError
from ..display import show_json, show_table
from ..options import PATH, SectionedCommand, as_json, block, option, section, spec_of


@click.command(cls=SectionedCommand)
@section("One of fabtune's blocks", block(required=False))
@section(
    "Your own Verilog",
    option("--verilog", type=PATH, multiple=True, help="A Verilog or SystemVerilog file; may be repeated."),
    option("--top", metavar="NAME", help="Its top module."),
)
@section(
    "Output",
    option("--board", default="zcu102", show_default=True, metavar="zcu102|kv260", help="Board for the percentages."),
    as_json,
)
def command(
    block: str | None,
    preset: str | None,
    settings: tuple[str, ...],
    verilog: tuple[Path, ...],
    top: str | None,
    board: str,
    as_json: bool,
) -> None:
    """Estimate LUTs, FFs, memories and DSPs with open synthesis, for a block or for your own Verilog."""
    from ...boards.board import board as board_of
    from ...boards.estimate.estimate import estimate_spec, estimate_verilog

    if bool(block) == bool(verilog):
        raise UserError("give either a BLOCK or --verilog FILE --top NAME")
    target = board_of(board)
    if verilog:
        if not top:
            raise UserError("--verilog needs --top NAME, the module to estimate")
        if settings or preset:
            raise UserError("--set and --preset belong to a BLOCK, not to --verilog")
        result = estimate_verilog(verilog, top)
    else:
        if top:
            raise UserError("--top belongs to --verilog, not to a BLOCK")
        result = estimate_spec(spec_of(str(block), settings, preset), target.fabric)
    shares = target.utilisation(result.resources)
    if as_json:
        show_json(
            {
                "resources": result.resources,
                "utilisation": shares,
                "logic_levels": result.logic_levels,
                "carry_cells": result.carry_cells,
                "raw": result.raw,
                "board": target.name,
            }
        )
        return
    rows = []
    for name, count in result.resources.items():
        share = shares[name]
        percent = "none there" if share is None else f"{share:.3f}"
        rows.append((name, f"{count:g}", percent, str(result.raw.get(name, ""))))
    show_table(("resource", "estimate", f"% of {target.name}", "raw count"), rows)
    click.echo(f"logic levels {result.logic_levels}, carry cells {result.carry_cells}; open synthesis, not Vivado")
