"""`fabtune verify`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from ...display import show_result
from ...options import FILE, SEED, SectionedCommand, as_json, block, option, refuse_options, section, spec_of


@click.command(cls=SectionedCommand, short_help="Simulate a block and compare every bit with golden.")
@section("Block", block())
@section(
    "Simulation",
    option("--simulator", default="verilator", show_default=True, metavar="verilator|icarus"),
    option("--words", type=click.IntRange(1, 10_000_000), default=1000, show_default=True, help="Words of a job."),
    option("--seed", type=SEED, default=0, show_default=True, help="Seed of the stimulus and stalls."),
    option(
        "--power-up",
        type=click.IntRange(0, (1 << 32) - 1),
        help="Seed of what RAMs hold at the start, 0 for zeros; by default by --seed.",
    ),
)
@section(
    "Output",
    option("--waves", type=FILE, help="File for the waveforms: .fst or .vcd."),
    option("--force", is_flag=True, help="Replace it."),
    as_json,
)
def command(
    simulator: str,
    words: int,
    seed: int,
    power_up: int | None,
    waves: Path | None,
    force: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Simulate a block and compare every bit with the golden model. Exit status 1 on any difference."""
    if waves is None:
        refuse_options(["force"], "no --waves")
    from ....sim.simulator import wave_format
    from ....sim.verify import verify
    from ...results import refuse_outputs

    spec = spec_of(**chosen)
    if waves:
        wave_format(waves, simulator)
        refuse_outputs([waves], None, force)
    verdict = verify(spec, simulator, words, seed, waves=waves, power_up=power_up)
    counts = f"{verdict.compared} numbers compared in {verdict.cycles} cycles, {verdict.mismatches} differ"
    show_result(dataclasses.asdict(verdict), as_json, lambda: [f"{spec.name} on {simulator}: {counts}"])
    for complaint in (*verdict.differences, *verdict.failures):
        click.echo(complaint, err=True)
    sys.exit(0 if verdict.passed else 1)
