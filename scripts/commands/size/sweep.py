"""`fabtune sweep`."""

from __future__ import annotations

from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_result, show_wide_table
from ...options import FILE, PATH, SectionedCommand, as_json, network_options, option, refuse_options, section


@click.command(cls=SectionedCommand, short_help="Find the right core in a space of parameters.")
@click.argument("file", metavar="SPACE.toml", type=FILE)
@section("The network, instead of what [training] in the file says", network_options)
@section(
    "Work",
    option("--processes", type=click.IntRange(1, 1000), default=1, show_default=True, help="Points at the same time."),
    option("--journal", type=FILE, help="Journal to begin or to continue, by default journal.log in the folder."),
)
@section(
    "Output",
    option("--output", "-o", type=PATH, help="Folder for points.csv and report.html, by default build/sweep/SPACE."),
    option("--force", is_flag=True, help="Replace these two; the journal is continued in any case."),
    as_json,
)
def command(
    file: Path,
    model: str | None,
    weights: Path | None,
    shape: tuple[int, ...] | None,
    processes: int,
    journal: Path | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Find the right core: accuracy, time and resources of every point of a space, and the Pareto front.

    The journal has all finished points: a stopped or killed sweep continues, and the same command in several terminals,
    or on machines with a common file system, shares the points.
    """
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UserError("a sweep needs Optuna: pip install 'fabtune[sweep]'") from None
    from rich.console import Console

    from ...sweep import run as sweep

    if shape is not None:
        refuse_options(["shape"], "a sweep, whose data say it")
    training = {
        name: str(option_value) for name, option_value in (("model", model), ("weights", weights)) if option_value
    }
    request = sweep.SweepRequest(file, output, journal, processes, force, training)
    result = sweep.run(request, Console(stderr=True))
    show_result(result, as_json, lambda: sweep.summary(result, show_wide_table))
