"""`fabtune import`."""

from __future__ import annotations

import re
from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_json, show_table
from ...options import FILE, SectionedCommand, as_json, option, section


@click.command(cls=SectionedCommand, short_help="Show what a MODEL becomes, where it fits, what saturates.")
@click.argument("model", metavar="MODEL")
@section(
    "The network",
    option("--input", "shape", metavar="SHAPE", help="Shape of a sample of file.py:build, such as 3x32x32 or 640."),
    option("--weights", type=FILE, help="A state dict for it: safetensors, or of torch.save."),
    option("--samples", type=FILE, help="NPZ file with x_test, for the range of each tensor."),
)
@section(
    "Output",
    option("--estimate", multiple=True, metavar="CORE:PRESET", help="Synthesise a core, for both boards; repeatable."),
    as_json,
)
def command(
    model: str, shape: str | None, weights: Path | None, samples: Path | None, estimate: tuple[str, ...], as_json: bool
) -> None:
    """Show what a MODEL becomes: its stages, where it fits, what saturates.

    MODEL is a preset, a file of ONNX, or file.py:build, a function that returns a torch.nn.Module; file.py is run.
    """
    from ... import import_model

    if shape is not None and not re.fullmatch(r"[1-9]\d{0,5}(x[1-9]\d{0,5}x[1-9]\d{0,5})?", shape):
        raise UserError(f"--input {shape!r} is not CHANNELSxHEIGHTxWIDTH or FEATURES, such as 3x32x32 or 640")
    sizes = None if shape is None else tuple(map(int, shape.split("x")))
    result = import_model.run(import_model.ImportRequest(model, sizes, weights, samples, estimate))
    if as_json:
        show_json(result)
        return

    def show(columns: list[str], rows: list[list[str]], title: str | None = None) -> None:
        show_table(columns, rows, title, piped_width=400)

    for line in import_model.summary(result, show):
        click.echo(line)
