"""`fabtune table`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ...display import show_json, show_wide_table
from ...heartbeat import doing
from ...options import FILE, PATH, STEPS, SectionedCommand, as_json, data_dir, option, refuse_options, section
from ...tables import TABLES, options_of, table_of


def _users(name: str) -> str:
    return ", ".join(table for table in TABLES if name in options_of(table))


@click.command(cls=SectionedCommand, short_help="Measure a table of a paper, beside the paper's numbers.")
@click.argument("name", metavar="|".join(TABLES))
@section(
    "Tables by training",
    data_dir,
    option("--seeds", type=click.IntRange(1, 1000), help="Trials; by default the table's own number."),
    option("--processes", type=click.IntRange(1, 1000), help="Trials at the same time; by default one a core."),
)
@section(
    f"Tables of text: {_users('shots')}",
    option("--model", type=PATH, help="Folder of a transformer."),
    option("--task", "tasks", multiple=True, metavar="NAME", help="A task, by default the table's; may be repeated."),
    option("--shots", type=click.IntRange(1), help="Sentences a class; by default 16."),
    option("--steps", type=STEPS, help="Steps of zeroth order."),
    option("--rate", type=click.FloatRange(0, min_open=True), help="Learning rate where all weights learn."),
    option("--plot", type=FILE, help="The table's curves: .png, .svg or .pdf."),
    option("--force", is_flag=True, help="Replace this file."),
)
@section(
    f"Tables of cores: {_users('preset')}",
    option("--preset", metavar="tiny|small|fast", help="Preset of the core, by default small."),
)
@section("Output", as_json)
def command(name: str, plot: Path | None, force: bool, as_json: bool, **options: Any) -> None:
    """Measure a table of a paper and print it next to the paper's numbers."""
    takes = options_of(name)
    if plot:
        from ...results import refuse_outputs

        refuse_outputs([], plot, force)
    refuse_options([option_name for option_name in (*options, "plot") if option_name not in takes], f"table {name}")
    refuse_options(["force"] if plot is None else [], "no --plot")
    from ...tables.options import Options

    def progress(text: str) -> None:
        doing(f"table {name}: {text}")

    def announce(text: str) -> None:
        click.echo(f"table {name}: {text}", err=True)

    result = table_of(name)(Options(progress=progress, announce=announce, **options))
    if plot:
        from ...curve import draw_curves

        draw_curves(result["curves"], result["title"], plot)
    if as_json:
        show_json(result)
        return
    columns = list(result["rows"][0])
    rows = [["-" if row[column] is None else str(row[column]) for column in columns] for row in result["rows"]]
    show_wide_table(columns, rows, title=result["title"])
    for note in result["notes"]:
        click.echo(note)
