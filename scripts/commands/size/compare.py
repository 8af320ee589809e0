"""`fabtune compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ...display import show_json
from ...options import PATH, SectionedCommand, as_json, block, option, sample_options, section


@click.command(cls=SectionedCommand, short_help="Compare a CAPTURE (CSV, hex words or NPZ) with golden.")
@section("Block", block())
@click.argument("capture", type=PATH)
@section("Samples of the package whose self-test was run, where it is not random", sample_options)
@section(
    "Alignment",
    option("--skip", type=click.IntRange(0), default=0, help="Words, or a core's updates, of golden before the first."),
    option("--drop", type=click.IntRange(0), default=0, help="Words or updates of the capture before golden's first."),
)
@section(
    "Numbers",
    option(
        "--radix",
        "radix",
        multiple=True,
        metavar="[WIRE=]RADIX",
        help="Radix of a CSV without a row of radices: hex, unsigned, signed, binary or octal.",
    ),
)
@section("Output", as_json)
def command(capture: Path, skip: int, drop: int, radix: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Compare a CAPTURE (CSV, hex words or NPZ) with golden. Exit status 1 on any difference.

    For a core the CAPTURE is the CSV of a logic analyser on the monitor during the self-test.
    """
    from ....golden.cores.core import CoreSpec
    from ....hw.top import ports_of
    from ....sim.captures.capture import read_capture
    from ....sim.captures.compare import compare
    from ....sim.captures.table import radices_of
    from ...packaging.own_task import spec_and_task

    radices = radices_of(radix)
    spec, task = spec_and_task(options)
    if isinstance(spec, CoreSpec):  # a capture of the monitor during the self-test
        from ....sim.captures.updates import compare_capture

        comparison, what = compare_capture(spec, capture, skip, drop, task, radices), "beats"
    else:
        words = read_capture(capture, spec, ports_of(spec), radices)
        comparison, what = compare(spec, words, skip, drop), "numbers"
    agreed = comparison.compared - comparison.mismatches
    if as_json:
        show_json(
            {
                "compared": comparison.compared,
                "agreed": agreed,
                "mismatches": comparison.mismatches,
                "differences": comparison.differences,
                "hint": comparison.hint,
            }
        )
    else:
        click.echo(f"{capture}: {agreed} of {comparison.compared} {what} agree")
        context = comparison.first.lines() if comparison.first else comparison.differences
        for line in (*context, *filter(None, [comparison.hint])):
            click.echo(line)
    sys.exit(0 if comparison.passed else 1)
