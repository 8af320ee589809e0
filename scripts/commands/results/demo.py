"""`fabtune demo`."""

from __future__ import annotations

import datetime
import shlex
import sys
from pathlib import Path

import click

from ...display import show_result
from ...options import PATH, SectionedCommand, as_json, option


@click.command(cls=SectionedCommand, short_help="Fine-tune on drifted digits, in the RTL of both cores, too.")
@option("--output", "-o", type=PATH, help="Folder to write, by default build/demo.")
@option("--simulator", default="verilator", show_default=True, metavar="verilator|icarus")
@option("--force", is_flag=True, help="Replace the files of an earlier demo.")
@option("--date", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Day in the report, by default today.")
@as_json
def command(output: Path | None, simulator: str, force: bool, date: datetime.datetime | None, as_json: bool) -> None:
    """Fine-tune on drifted digits in integers and in the RTL of both cores, emit, estimate, and write a report."""
    from rich.console import Console

    from ...demo.report import Provenance
    from ...demo.run import run, summary
    from ...outputs import OutputFolder

    folder = OutputFolder(output or Path("build/demo"), force, default=output is None)
    words = ["fabtune", "demo", *(["-o", str(output)] if output else []), "--simulator", simulator]
    origin = Provenance(shlex.join(words), (date or datetime.datetime.now()).date().isoformat())
    result = run(folder, simulator, origin, Console(stderr=True))
    show_result(result, as_json, lambda: [summary(result)])
    sys.exit(0 if result["bit_exact"] else 1)
