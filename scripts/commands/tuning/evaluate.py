"""`fabtune evaluate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ....golden.errors import UserError
from ...display import show_result, show_table
from ...options import (
    FILE,
    PATH,
    SEED,
    CoreOption,
    SectionedCommand,
    as_json,
    data_dir,
    network_options,
    option,
    section,
)


@click.command(cls=SectionedCommand, short_help="Count what a network, or a RUN of tune, classifies right.")
@click.argument("run", metavar="[RUN]", type=PATH, required=False)
@section(
    "Network, where no RUN says it",
    network_options,
    option("--delta", type=FILE, help="A file of tune --delta, added to these weights; the same as RUN."),
)
@section(
    "Samples: those that are held out",
    option("--data", metavar="NAME|npz:FILE|csv:FOLDER", help="By default those of the run."),
    data_dir,
    option("--drift", metavar="none|camera|rotate:DEG", help="By default that of the run, otherwise none."),
    option("--scale", type=float, metavar="FACTOR", help="Multiply samples of floats; by default as in the run."),
    option("--seed", type=SEED, help="Of drift and splits; by default that of the run, otherwise 0."),
    option("--first", type=click.IntRange(1), metavar="COUNT", help="So many samples alone."),
)
@section(
    "Engine",
    option("--engine", metavar="golden|float|rtl", help="The hardware's integers, the default; PyTorch; the core."),
    option(
        "--core",
        cls=CoreOption,
        names=("TUNER",),
        help="Preset, with --engine rtl; by default that of the run.",
    ),
)
@section(
    "Output",
    option("--logits", type=FILE, help="File .npz for logits and labels."),
    option("--force", is_flag=True, help="Replace it."),
    as_json,
)
def command(
    run: Path | None,
    model: str | None,
    weights: Path | None,
    shape: tuple[int, ...] | None,
    delta: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Count correct classifications of a network, or of a RUN of tune: in all, by class, and the confused classes.

    RUN is the file of `fabtune tune`, its folder, or a delta. On sentences --model is the FOLDER or FILE.gguf from
    which the run started; a delta needs it. With --engine rtl all outputs are compared with the
    integers; a difference is exit status 1.
    """
    if run and delta:
        raise UserError(f"{run} and --delta {delta} both name a run: give one of them")
    from rich.console import Console

    from ...tuning import evaluate, evaluate_sentences
    from ...tuning.saved_run import SavedRun

    request = evaluate.EvaluateRequest(SavedRun(run or delta, model, weights, shape), **options)
    console = Console(stderr=True)
    sentences = evaluate_sentences.of_sentences(request)
    if sentences is False:
        result = evaluate.run(request, console)
    else:
        result = evaluate_sentences.run(request, None if sentences is True else sentences, console)
    show_result(result, as_json, lambda: evaluate.summary(result, show_table))
    sys.exit(0 if result.get("bit_exact", True) else 1)
