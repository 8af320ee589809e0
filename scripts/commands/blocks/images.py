"""`fabtune images`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ....golden.errors import UserError
from ...display import show_files
from ...options import PATH, SectionedCommand, as_json, block, option, section, sentence_options, task_options


@click.command(cls=SectionedCommand, short_help="Write what a core reads in memory, of your network and samples.")
@section("Core", block())
@section("Samples and tuning", task_options)
@section(
    "Sentences, for a core of transformers: --data csv:FOLDER or as `tune`, --model FOLDER or FILE.gguf",
    sentence_options,
)
@section(
    "Output",
    option("--output", "-o", type=PATH, required=True, help="Folder to write."),
    option("--force", is_flag=True, help="Replace the folder's files of the same names."),
    as_json,
)
def command(output: Path, force: bool, as_json: bool, **options: Any) -> None:
    """Write the memory regions of a core's job for your own host program: a file for each region, and job.json.

    The regions are parameters, samples, order lists, labels, adapters or state. job.json has their addresses, the
    registers and commands that use them, and golden's results. docs/memory-images.md has their formats.
    """
    from ....boards.example.images import JOB_FILE, image_files
    from ....boards.example.package import example_of
    from ....golden.cores.core import CoreSpec
    from ...outputs import OutputFolder
    from ...packaging.own_task import job_facts, job_lines, spec_and_task

    folder = OutputFolder(output, force, default=False)
    folder.refuse([JOB_FILE])
    spec, task = spec_and_task(options)
    if task is None or not isinstance(spec, CoreSpec):
        raise UserError("the images are of your samples: give --data npz:FILE, with --weights or --model")
    example = example_of(spec, task)
    assert example is not None, "a core without one is refused"
    written = folder.write(image_files(example))
    facts = job_facts(example)
    show_files(output, written, as_json, facts, job_lines(facts))
