"""`fabtune roofline`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ....golden.errors import UserError
from ...display import show_json, show_table
from ...options import SEED, SectionedCommand, as_json, block, option, section, spec_of

if TYPE_CHECKING:
    from ....golden.cores.core import CoreSpec
    from ....sim.compiled.roofline import Roofline


@click.command(cls=SectionedCommand, short_help="Count the cycles in which each part of a core is at work.")
@section("Core", block())
@section(
    "Job",
    option("--samples", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Samples of an epoch."),
    option("--seed", type=SEED, default=1, show_default=True, help="Seed of network and samples."),
    option("--raw", is_flag=True, help="With a cache of Q8.16 instead of NF4."),
    option("--duty", type=click.FloatRange(0.01, 1), help="Share of cycles in which a memory port moves a beat."),
)
@section("Output", as_json)
def command(samples: int, seed: int, raw: bool, duty: float | None, as_json: bool, **chosen: Any) -> None:
    """Count the cycles of a sample in which each part of a core is at work, and name the limiting part.

    The counters exist only in the simulation. Jobs are random, run in the compiled core, and are compared with golden.
    """
    from ....golden.cores.core import CoreSpec
    from ....sim.compiled.roofline import RooflineJob, roofline, roofline_of, shown_by
    from ....sim.compiled.session import Dram
    from ....sim.simulator import compiler

    spec = spec_of(**chosen)
    if not isinstance(spec, CoreSpec):
        raise UserError(f"{spec.name} is no core: the roofline is that of {' or '.join(shown_by())}")
    job = RooflineJob(samples, seed, raw)
    roofline_of(spec).check(spec, job)
    compiler()
    dram = Dram() if duty is None else Dram(duty=duty)
    result = roofline(spec, job, dram, lambda name: click.echo(f"{name} ...", err=True))
    if as_json:
        work = {kind: work_of_kind.facts for kind, work_of_kind in result.work.items()}
        show_json({"samples": work, "batches_compared": result.compared, "mismatches": result.mismatches})
    else:
        _table(spec, result)
        click.echo(f"{result.compared} batches compared with the integers, {result.mismatches} mismatches")
    if result.mismatches:
        sys.exit(1)


def _table(spec: CoreSpec, result: Roofline) -> None:
    from ....sim.compiled.roofline import roofline_of

    titles = dict(roofline_of(spec).titles)
    kinds = result.work.values()

    def row(title: str, cycles: list[float]) -> list[str]:
        # + 0.0 turns -0.0 into 0.0
        return [title, *(f"{round(work, 1) + 0.0:.1f}" for work in cycles)]

    first = next(iter(kinds))
    rows = [row("all", [work.cycles for work in kinds])]
    rows += [row(titles[name], [work.turns[name] for work in kinds]) for name in first.turns]
    rows.append(row("none of these", [work.idle for work in kinds]))
    for name in first.beside:
        title = titles.get(name, f"{name} has a beat to move")
        rows.append(row(f"beside: {title}", [work.beside[name] for work in kinds]))
    rows.append(row("beats of all ports", [work.beats for work in kinds]))
    limits = [titles.get(work.limit, work.limit) for work in kinds]
    show_table(["cycles of a sample", *result.work], [*rows, ["limit", *limits]])
