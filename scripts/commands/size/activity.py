"""`fabtune activity`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....boards.board import BOARDS, DEFAULT_BOARD, DEFAULT_MHZ
from ....golden.errors import UserError
from ...display import show_json, show_table
from ...options import PATH, SEED, SectionedCommand, as_json, block, option, section, spec_of

if TYPE_CHECKING:
    from ....sim.compiled.activity import Activity, Toggles


@click.command(cls=SectionedCommand, short_help="Count what toggles in a job, for Vivado's power estimate.")
@section("Core", block())
@section(
    "Job",
    option("--steps", type=click.IntRange(1, 1000), default=4, show_default=True, help="Steps, or batches of tuning."),
    option("--batch", type=click.IntRange(1, 1000), help="Samples of each; default: 16, or the core's for tuning."),
    option("--seed", type=SEED, default=1, show_default=True, help="Seed of network, samples and order."),
    option("--raw", is_flag=True, help="Tune with a cache of Q8.16 instead of NF4."),
    option("--alone", is_flag=True, help="Leave out the comparison with Gaussian generators or a cache of Q8.16."),
)
@section(
    "Output",
    option("--mhz", type=float, default=DEFAULT_MHZ, show_default=True, help="Clock, for the times in the SAIF."),
    option("--output", "-o", type=PATH, help="Folder to write, by default build/activity/CORE."),
    option("--force", is_flag=True, help="Replace the folder's files of the same names."),
    as_json,
)
def command(
    steps: int,
    batch: int | None,
    seed: int,
    raw: bool,
    alone: bool,
    mhz: float,
    output: Path | None,
    force: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Count toggles in a core during a job, and write them for Vivado's power report: SAIF and power.tcl.

    The job is random, runs in the compiled core, and must end with golden's numbers. Vivado computes the watts.
    """
    from ....boards.vivado import tcl
    from ....boards.vivado.project import period_ns
    from ....golden.cores.core import CoreSpec
    from ....golden.registry import CORES
    from ....sim.compiled.activity import ActivityJob, activity, activity_of
    from ....sim.compiled.saif import ROOT
    from ....sim.simulator import compiler
    from ...outputs import OutputFolder

    spec = spec_of(**chosen)
    if not isinstance(spec, CoreSpec):
        names = " or ".join(name for name, core in CORES.items() if core.part("sim", "measured_jobs", "ACTIVITY"))
        raise UserError(f"{spec.name} is no core: the activity of a job is that of {names}")
    job = ActivityJob(steps, batch or 0, seed, raw)
    job.check(spec)
    # even, for two equal halves of a period
    period_ps = 2 * round(float(period_ns(BOARDS[DEFAULT_BOARD].processor_clock.rate(mhz))) * 500)
    compiler()
    files = f"{spec.name}.saif", "power.tcl"
    folder = OutputFolder(output or Path("build/activity") / spec.name, force, default=output is None)
    folder.refuse(files)

    def stage(name: str) -> None:
        click.echo(f"{name} ...", err=True)

    core = activity(spec, job, period_ps, stage)
    against = None if alone else activity_of(spec).baseline(spec, job)
    baseline = activity(*against[1:], period_ps, stage) if against else None
    for measured in filter(None, (core, baseline)):
        if not measured.bit_exact:
            click.echo(f"{measured.top}: the numbers after the job are not golden's: nothing is written", err=True)
            sys.exit(1)
    power = tcl.script("power", {"saif": files[0], "instance": f"{ROOT}/{core.top}"})
    written = folder.write(dict(zip(files, (core.saif, power), strict=True)))
    if as_json:
        compared = {"with": against[0]} | _facts(baseline) if against and baseline else None
        show_json({"folder": str(folder.path), "files": written} | _facts(core) | {"compared": compared})
        return
    click.echo(f"{activity_of(spec).steps}: {core.steps} of {core.batch} samples, {core.cycles} cycles")
    name = against[0] if against else ""
    _table("port", core, core.ports, baseline.ports if baseline else None, name)
    _table("registers of", core, core.registers, baseline.registers if baseline else None, name)
    for file in written:
        click.echo(folder.path / file)


def _facts(figures: Activity) -> dict[str, Any]:
    """Figures of a core for ``--json``; toggles are of the whole job."""

    def groups(toggles_by_name: Mapping[str, Toggles]) -> dict[str, dict[str, int]]:
        return {name: {"bits": toggles.bits, "toggles": toggles.count} for name, toggles in toggles_by_name.items()}

    return {
        "steps": figures.steps,
        "batch": figures.batch,
        "cycles": figures.cycles,
        "ports": groups(figures.ports),
        "registers": groups(figures.registers),
    }


def _table(
    title: str, core: Activity, groups: Mapping[str, Toggles], others: Mapping[str, Toggles] | None, name: str
) -> None:
    from ....sim.compiled.activity import Toggles

    columns = [title, "bits", "toggles a step", "% of bits a cycle"]
    rows = []
    for group in [*dict.fromkeys([*groups, *(others or ())]), "all"]:
        toggles, compared = (
            sum(groups_of_core.values(), Toggles()) if group == "all" else groups_of_core.get(group, Toggles())
            for groups_of_core in (groups, others or {})
        )
        rate = 100 * toggles.count / (toggles.bits * core.cycles) if toggles.bits else 0
        row = [group, str(toggles.bits), f"{toggles.count / core.steps:.0f}", f"{rate:.2f}"]
        if others is not None:
            row += [
                f"{compared.count / core.steps:.0f}",
                f"{compared.count / toggles.count:.2f}" if toggles.count else "",
            ]
        rows.append(row)
    show_table([*columns, *([name, "ratio"] if others is not None else [])], rows)
