"""`fabtune export`."""

from __future__ import annotations

from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_json, show_result
from ...options import PATH, SectionedCommand, as_json, network_options, option, section

OF_SENTENCES = ("transformers", "gguf")
KINDS = ("pytorch", "onnx", "npz", *OF_SENTENCES)
"""Kinds of output."""


@click.command(cls=SectionedCommand, short_help="Bring a RUN of tune back to PyTorch, ONNX or integers.")
@click.argument("run", metavar="RUN", type=PATH)
@section(
    "Where the run does not say it, or files have moved",
    network_options,
)
@section(
    "Output",
    option("--to", "kind", type=click.Choice(KINDS), required=True, help="What to write."),
    option("--output", "-o", type=PATH, required=True, help="File: .pt, .safetensors, .pt2; .onnx; .npz; or FOLDER."),
    option("--force", is_flag=True, help="Replace it."),
    as_json,
)
def command(
    run: Path,
    model: str | None,
    weights: Path | None,
    shape: tuple[int, ...] | None,
    kind: str,
    output: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Export a RUN of tune: under your tensor names, with batch norm as before, adapters merged if possible.

    RUN is the file of `fabtune tune`, its folder, or a delta. For PyTorch the output is a state dict for your class
    (.pt, .safetensors), or a program of torch.export with every operation outside layers (.pt2). A run on sentences
    goes to a whole FOLDER (--to transformers) or to ONNX, and where it started from a GGUF file, to a GGUF file.
    """
    from ....golden.importers.user_module import holds_network
    from ....golden.models.checkpoint import refuse_existing
    from ....golden.train.tuned.export import PROGRAM, export, how_to_load, refuse_kind
    from ...results import refuse_outputs
    from ...tuning.export_sentences import export_sentences
    from ...tuning.saved_run import SavedRun

    if kind not in OF_SENTENCES:
        refuse_existing(output, force)
        refuse_outputs([output], None, force)
        refuse_kind(kind, output)
    saved = SavedRun(run, model, weights, shape)
    sentences = saved.sentences()
    if sentences is not None:
        result = export_sentences(sentences, saved.folder(sentences), kind, output, force)
        show_result(result, as_json, lambda: [f"{output}: {result['load']}"])
        return
    if kind in OF_SENTENCES:
        raise UserError(f"--to {kind} is for a run on sentences: take --to pytorch, onnx or npz")
    read = saved.read()
    named = model or (read.metadata.get("model", "") if read else "")
    if kind == "pytorch" and holds_network(named) and output.suffix != PROGRAM:
        raise UserError(
            f"{named} is no class of PyTorch's that could load {output}: take -o FILE{PROGRAM}, or --to onnx"
        )
    _, _, tuned = saved.load(read)
    export(tuned, kind, output)
    remaining = len(tuned.merged().adapters)
    result = {"output": str(output), "to": kind, "merged": len(tuned.adapters) - remaining, "adapters": remaining}
    if as_json:
        show_json(result)
        return
    if tuned.adapters:
        click.echo(f"{result['merged']} adapters merged into weights, {remaining} beside them")
    click.echo(f"{output}: {how_to_load(kind, output)}")
