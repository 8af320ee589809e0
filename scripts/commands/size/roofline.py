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
def command(
    block: str,
    settings: tuple[str, ...],
    preset: str | None,
    samples: int,
    seed: int,
    raw: bool,
    duty: float | None,
    as_json: bool,
    **own_network: Any,
) -> None:
    """Count the cycles of a sample in which each part of a core is at work, and tell which one limits it.

    The counters are in the simulation alone. Jobs are random, run in the compiled core, and are compared with golden.
    """
    from ....golden.cores.core import CoreSpec
    from ....sim.compiled.roofline import RooflineJob, roofline, roofline_of, shown_by
    from ....sim.compiled.session import Dram
    from ....sim.simulator import compiler

    spec = spec_of(block, settings, preset, **own_network)
    if not isinstance(spec, CoreSpec):
        raise UserError(f"{block} is no core: the roofline is that of {' or '.join(shown_by())}")
    job = RooflineJob(samples, seed, raw)
    roofline_of(spec).check(spec, job)
    compiler()
    dram = Dram() if duty is None else Dram(duty=duty)
    found = roofline(spec, job, dram, lambda name: click.echo(f"{name} ...", err=True))
    if as_json:
        work = {kind: one.facts for kind, one in found.work.items()}
        show_json({"samples": work, "batches_compared": found.compared, "mismatches": found.mismatches})
    else:
        _table(spec, found)
        click.echo(f"{found.compared} batches compared with the integers, {found.mismatches} mismatches")
    if found.mismatches:
        sys.exit(1)


def _table(spec: CoreSpec, found: Roofline) -> None:
    """Print the cycles of each part."""
    from ....sim.compiled.roofline import roofline_of

    titles = dict(roofline_of(spec).titles)
    kinds = found.work.values()

    def row(title: str, cycles: list[float]) -> list[str]:
        # no minus before a zero
        return [title, *(f"{round(one, 1) + 0.0:.1f}" for one in cycles)]

    first = next(iter(kinds))
    rows = [row("all", [one.cycles for one in kinds])]
    rows += [row(titles[name], [one.turns[name] for one in kinds]) for name in first.turns]
    rows.append(row("none of these", [one.idle for one in kinds]))
    for name in first.beside:
        title = titles.get(name, f"{name} has a beat to move")
        rows.append(row(f"beside: {title}", [one.beside[name] for one in kinds]))
    rows.append(row("beats of all ports", [one.beats for one in kinds]))
    limits = [titles.get(one.limit, one.limit) for one in kinds]
    show_table(["cycles of a sample", *found.work], [*rows, ["limit", *limits]])
