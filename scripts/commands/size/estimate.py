"""`fabtune estimate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....boards.board import DEFAULT_BOARD
from ....golden.errors import UserError
from ...display import show_json, show_table
from ...options import PATH, SectionedCommand, as_json, block, option, section, spec_of

if TYPE_CHECKING:
    from ....boards.board import Board
    from ....boards.estimate.estimate import Estimate
    from ....boards.estimate.fanout import FanOut


@click.command(cls=SectionedCommand, short_help="Estimate LUTs, FFs, memories and DSPs by open synthesis.")
@section("One of fabtune's blocks", block(required=False))
@section(
    "Your own Verilog",
    option("--verilog", type=PATH, multiple=True, help="A Verilog or SystemVerilog file; may be repeated."),
    option("--top", metavar="NAME", help="Its top module."),
    option(
        "--parameter",
        "parameters",
        metavar="NAME=VALUE",
        multiple=True,
        help="A parameter of it that differs from its default; may be repeated.",
    ),
    option(
        "--include",
        "includes",
        type=PATH,
        multiple=True,
        metavar="FOLDER",
        help="A folder of files that it includes; may be repeated.",
    ),
)
@section(
    "Output",
    option(
        "--board",
        default=DEFAULT_BOARD,
        show_default=True,
        metavar="zcu102|kv260",
        help="Board for the percentages, and for a BLOCK's kinds of memory.",
    ),
    as_json,
)
def command(
    block: str | None,
    preset: str | None,
    settings: tuple[str, ...],
    verilog: tuple[Path, ...],
    top: str | None,
    parameters: tuple[str, ...],
    includes: tuple[Path, ...],
    board: str,
    as_json: bool,
    **own_network: Any,
) -> None:
    """Estimate LUTs, FFs, memories and DSPs with open synthesis, for a block or for your own Verilog."""
    from ....boards.board import board as board_of
    from ....boards.estimate.estimate import estimate_spec, estimate_verilog
    from ....hw.verilog import without_garbage_collection

    if bool(block) == bool(verilog):
        raise UserError("give either a BLOCK or --verilog FILE --top NAME")
    target = board_of(board)
    if verilog:
        if not top:
            raise UserError("--verilog needs --top NAME, the module to estimate")
        if settings or preset or any(own_network.values()):
            raise UserError("--set, --preset and --model belong to a BLOCK, not to --verilog")
        if odd := next((parameter for parameter in parameters if "=" not in parameter), None):
            raise UserError(f"--parameter {odd!r} is not NAME=VALUE")
        values = dict(parameter.split("=", 1) for parameter in parameters)
        _show(estimate_verilog(verilog, top, values, includes), target, as_json)
        return
    if top or parameters or includes:
        raise UserError("--top, --parameter and --include belong to --verilog, not to a BLOCK")
    spec = spec_of(str(block), settings, preset, **own_network)
    with without_garbage_collection():  # else a collection runs between emission and synthesis
        result = estimate_spec(spec, target.fabric)
    _show(result, target, as_json)
    if not as_json and (plan := spec.memory_plan(target.fabric)).memories:
        show_table(("memory", "number", "rows x bits", "kind", "blocks"), plan.table, f"plan for the {target.name}")


def _show(result: Estimate, target: Board, as_json: bool) -> None:
    from ....boards.estimate.accuracy import interval, path_interval

    shares = target.utilisation(result.resources)
    if as_json:
        show_json(
            {
                "resources": result.resources,
                "interval": {name: interval(name, count) for name, count in result.resources.items()},
                "utilisation": shares,
                "logic_levels": result.logic_levels,
                "carry_cells": result.carry_cells,
                "slowest_path": asdict(result.slowest) | {"interval": path_interval(result.slowest.ns)},
                "fan_outs": [asdict(net) for net in result.fan_outs],
                "flip_flops_with_reset": result.with_reset,
                "raw": result.raw,
                "board": target.name,
            }
        )
        return
    rows = []
    for name, count in result.resources.items():
        share = shares[name]
        percent = "none there" if share is None else f"{share:.3f}"
        range_of = interval(name, count)
        between = f"{range_of[0]:g} to {range_of[1]:g}" if range_of else ""
        rows.append((name, f"{count:g}", between, percent, str(result.raw.get(name, ""))))
    show_table(("resource", "estimate", "80 % range", f"% of {target.name}", "Yosys's count"), rows)
    slowest = result.slowest
    through = ", ".join(f"{count} {kind}" for kind, count in slowest.through.items() if count) or "no cell"
    least, most = path_interval(slowest.ns)
    click.echo("open synthesis, not Vivado: of five published designs four had Vivado's count within the 80 % range")
    click.echo(f"logic levels {result.logic_levels} (LUTs on the deepest path), CARRY8 on a path {result.carry_cells}")
    click.echo(
        f"slowest path {slowest.ns} ns, in two of three designs {least} to {most} ns with Vivado: "
        f"from {slowest.start} to {slowest.end} through {through}"
    )
    share = result.with_reset / max(result.raw["ff"], 1)
    click.echo(f"flip-flops with a reset {result.with_reset} of {result.raw['ff']} ({share:.0%})")
    show_table(
        ("fan-out", "net", "pins that it drives"), [(str(net.loads), net.net, _pins(net)) for net in result.fan_outs]
    )


def _pins(net: FanOut) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in net.pins.items())
