"""`fabtune import`."""

from __future__ import annotations

from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_result, show_wide_table
from ...options import FILE, SectionedCommand, as_json, network_options, option, refuse_options, scale, section


@click.command(cls=SectionedCommand, short_help="Show what a MODEL becomes, where it fits, what saturates.")
@click.argument("argument", metavar="[MODEL]", required=False)
@section(
    "The network",
    network_options,
    option("--samples", type=FILE, help="NPZ file with x_test, for the range of each tensor."),
    option("--sentences", type=FILE, help="Text with a sentence a line, for the same of a FOLDER with a tokenizer."),
    scale,
)
@section(
    "Output",
    option("--estimate", multiple=True, metavar="CORE:PRESET", help="Synthesise a core, for both boards; repeatable."),
    as_json,
)
def command(
    argument: str | None,
    model: str | None,
    shape: tuple[int, ...] | None,
    weights: Path | None,
    samples: Path | None,
    sentences: Path | None,
    scale: float,
    estimate: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the import of a MODEL: its stages, fit on cores and boards, and saturation.

    MODEL, also given as --model, is a preset, a file of ONNX or of torch.export (.pt2), or file.py:build, a function
    that returns a torch.nn.Module; file.py is run. A transformer is such a module, a folder saved by the library
    transformers, or a GGUF file.
    """
    if argument and model:
        raise UserError(f"{argument} and --model {model} both name the network: give one of them")
    if not (named := argument or model):
        raise UserError("name the network: fabtune import FILE.py:BUILD, FILE.onnx, FILE.pt2, FOLDER or a preset")
    if samples is None:
        refuse_options(["scale"], "no --samples")
    from ...imports.model import run, summary
    from ...own_network import OwnNetwork

    result = run(OwnNetwork(named, weights, shape), samples, sentences, scale, estimate)
    show_result(result, as_json, lambda: summary(result, show_wide_table))
