"""`fabtune utilisation`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ....boards.board import DEFAULT_BOARD
from ....golden.errors import UserError
from ...display import show_json, show_table
from ...options import PATH, SectionedCommand, as_json, block, option, section, spec_of


@click.command(cls=SectionedCommand, short_help="Show a utilisation REPORT of Vivado beside the estimate.")
@click.argument("report", type=PATH)
@section("Block", block())
@section(
    "Board",
    option(
        "--board",
        metavar="zcu102|kv260",
        help=f"Board for the BLOCK's kinds of memory, by default that of the report's device, else {DEFAULT_BOARD}.",
    ),
)
@section("Output", as_json)
def command(report: Path, board: str | None, as_json: bool, **chosen: Any) -> None:
    """Show a REPORT of Vivado's report_utilization next to the estimate of the BLOCK, and their ratio.

    `synth_ooc.tcl` of `fabtune emit BLOCK --board NAME` writes such a report into its folder reports/.
    """
    from ....boards.board import board as board_of
    from ....boards.estimate.estimate import estimate_spec
    from ....boards.identity import design_name
    from ....boards.vivado.utilisation import ratios, read_report

    spec = spec_of(**chosen)
    named, report_data = board_of(board) if board else None, read_report(report)
    if named and report_data.board and named != report_data.board:
        raise UserError(
            f"{report} is of the {report_data.board.name}'s device, not of the {board}'s: leave --board out"
        )
    names = {spec.name, design_name(spec), design_name(spec, None, None if chosen["settings"] else chosen["preset"])}
    if report_data.design and report_data.design not in names:
        names_text = " or ".join(sorted(names))
        click.echo(f"fabtune: note: {report} is of the design {report_data.design}, not of {names_text}", err=True)
    vivado, target = report_data.resources, named or report_data.board or board_of(DEFAULT_BOARD)
    estimate = estimate_spec(spec, target.fabric).resources
    ratio = ratios(estimate, vivado)
    if as_json:
        show_json(
            {"vivado": vivado, "estimate": estimate, "ratio": ratio, "board": target.name, "design": report_data.design}
        )
        return
    rows = [
        (name, f"{vivado[name]:g}", f"{estimate[name]:g}", "-" if ratio[name] is None else f"{ratio[name]:.3f}")
        for name in vivado
    ]
    show_table(("resource", "Vivado", f"estimate, {target.name}", "estimate / Vivado"), rows)
