"""`fabtune utilisation`."""

from __future__ import annotations

from pathlib import Path

import click

from ...display import show_json, show_table
from ...options import PATH, SectionedCommand, as_json, block, section, spec_of


@click.command(cls=SectionedCommand)
@click.argument("report", type=PATH)
@section("Block", block())
@section("Output", as_json)
def command(report: Path, block: str, settings: tuple[str, ...], preset: str | None, as_json: bool) -> None:
    """Show a REPORT of Vivado's report_utilization beside the estimate of the BLOCK, and their ratio.

    `synth_ooc.tcl`, which `fabtune emit BLOCK --board NAME` writes, leaves such a report in its folder reports/.
    """
    from ....boards.estimate.estimate import estimate_spec
    from ....boards.vivado.utilisation import ratios, read_report

    spec = spec_of(block, settings, preset)
    vivado = read_report(report)
    estimate = estimate_spec(spec).resources
    ratio = ratios(estimate, vivado)
    if as_json:
        show_json({"vivado": vivado, "estimate": estimate, "ratio": ratio})
        return
    rows = [
        (name, f"{vivado[name]:g}", f"{estimate[name]:g}", "-" if ratio[name] is None else f"{ratio[name]:.3f}")
        for name in vivado
    ]
    show_table(("resource", "Vivado", "estimate", "estimate / Vivado"), rows)
