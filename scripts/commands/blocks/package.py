"""`fabtune package`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ....boards.board import DEFAULT_MHZ
from ....golden.errors import UserError
from ...display import show_files
from ...options import (
    NAME_HELP,
    PATH,
    SectionedCommand,
    as_json,
    block,
    option,
    section,
    sentence_options,
    task_options,
)


@click.command(cls=SectionedCommand, short_help="Write a core as an IP, with scripts and drivers for a board.")
@section("Core", block())
@section(
    "Samples, of which self-test and example are; they are random, and digits, without",
    task_options,
)
@section(
    "Sentences, for a core of transformers: --data csv:FOLDER or as `tune`, --model FOLDER or FILE.gguf",
    sentence_options,
)
@section(
    "Board",
    option("--board", required=True, metavar="zcu102|kv260", help="The board that the package is for."),
    option(
        "--mhz", type=float, default=DEFAULT_MHZ, show_default=True, help="Clock of the core: 1500 divided by integers."
    ),
    option(
        "--for",
        "targets",
        multiple=True,
        metavar="TARGET",
        help="vivado, vitis, pynq, linux, baremetal, simulation; default: all.",
    ),
)
@section(
    "Debug",
    option(
        "--debug", is_flag=True, help="Pins that show each update, and a logic analyser on them; as --set monitor=true."
    ),
)
@section(
    "Output",
    option("--output", "-o", type=PATH, help="Folder to write, by default build/packages/CORE-BOARD."),
    option("--name", metavar="SUFFIX", help=NAME_HELP),
    option("--force", is_flag=True, help="Replace the folder's files, and those of an earlier package."),
    as_json,
)
def command(
    board: str,
    mhz: float,
    targets: tuple[str, ...],
    debug: bool,
    output: Path | None,
    name: str | None,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write a core as an IP with everything that a board's tools need: IP-XACT, block design, registers.

    With --weights and --data the self-test and the example use your network and samples, with golden's results.
    """
    from ....boards.board import board as board_of
    from ....boards.example.package import example_of
    from ....boards.identity import design_name
    from ....boards.manifest import earlier_package, replaced
    from ....boards.packaging import core_package, settings_file
    from ....golden.cores.core import CoreSpec
    from ....golden.cores.network_core import NetworkCoreSpec
    from ...outputs import OutputFolder
    from ...packaging.own_task import job_facts, job_lines, spec_and_task

    target, (spec, task) = board_of(board), spec_and_task(options)
    if not isinstance(spec, CoreSpec):
        raise UserError(
            f"{spec.name} is a block without registers: `fabtune emit {spec.name} --board {board}` writes it"
        )
    own_network = (options["model"] or task) and isinstance(spec, NetworkCoreSpec)
    changed = options["settings"] or own_network  # a core of programs is the same for every network
    mhz, top = target.processor_clock.rate(mhz), design_name(spec, name, None if changed else options["preset"])
    spec = replace(spec, monitor=spec.monitor or debug)
    folder = OutputFolder(output or Path("build/packages") / f"{spec.name}-{board}", force, default=output is None)
    folder.refuse(["README.md", "spec.json"])  # before seconds of work; other files once their names are known
    earlier = earlier_package(folder.path, settings_file(spec, target, mhz, targets, top, task))
    if targets and earlier and earlier.targets:  # keep the targets of the earlier package
        targets += earlier.targets
    files = core_package(spec, target, targets, mhz, top, task)
    obsolete = {file: was for file, was in (earlier.digests if earlier else {}).items() if file not in files}
    written = folder.write(files, instead_of=obsolete)
    if earlier and earlier.targets is None:
        click.echo(replaced(folder.path, len(obsolete)), err=True)
    facts = job_facts(example_of(spec, task) if task else None)
    show_files(folder.path, written, as_json, facts, job_lines(facts, isinstance(spec, NetworkCoreSpec)))
