"""`fabtune delta`."""

from __future__ import annotations

from pathlib import Path

import click

from ...display import show_result
from ...options import FILE, PATH, SectionedCommand, as_json, option, section

output = option("--output", "-o", type=FILE, required=True, help="File to write.")
force = option("--force", is_flag=True, help="Replace it.")


@click.group(short_help="Show, apply or add files of updates by zeroth order.")
def command() -> None:
    """Show, apply or add delta files: the changes of a zeroth-order run, in 32 kB for any network.

    `fabtune tune --method pezo-otf --delta FILE` writes a delta file.
    """


@command.command(cls=SectionedCommand)
@click.argument("file", type=FILE)
@section("Output", as_json)
def show(file: Path, as_json: bool) -> None:
    """Show base, sizes and formats of a delta file."""
    from ....golden.train.zo.delta_file import Delta

    delta = Delta.load(file)
    described = delta.described() | {"bytes": file.stat().st_size}
    show_result(described, as_json, lambda: [f"{name}: {value}" for name, value in described.items()])


@command.command(cls=SectionedCommand, short_help="Add a delta to the weights from which it was tuned.")
@click.argument("file", type=FILE)
@section(
    "Base: one of these",
    option("--weights", type=FILE, help="Its state dict: .safetensors or PyTorch's."),
    option(
        "--model",
        type=PATH,
        help="Folder or GGUF file of a transformer, for the delta of a text task in integers.",
    ),
)
@section(
    "Output",
    option(
        *("--output", "-o"),
        type=PATH,
        required=True,
        help="File, .safetensors; with --model also a FOLDER for transformers, or FILE.gguf.",
    ),
    force,
    as_json,
)
def apply(file: Path, weights: Path | None, model: Path | None, output: Path, force: bool, as_json: bool) -> None:
    """Add a delta to the weights from which it was tuned; other weights are refused.

    A transformer's tensors are written as the hardware multiplies them, under the names of its file. A FOLDER has
    settings, tokenizer and a model card too; its README.md shows how to classify a sentence with it.
    """
    import torch

    from ....golden.errors import UserError
    from ....golden.models.checkpoint import load_state, save_state
    from ....golden.train.text.tuned_gguf import SUFFIX
    from ....golden.train.text.tuned_sentences import SentenceRun
    from ....golden.train.zo.delta_file import Delta
    from ...results import refuse_outputs
    from ...tuning.export_sentences import export_sentences

    if (weights is None) == (model is None):
        raise UserError("give --weights FILE, or for a transformer --model FOLDER: the base of the delta")
    if model is not None and output.suffix != ".safetensors":
        run = SentenceRun.load(file)
        if run is None or run.delta is None:
            raise UserError(f"{file} is no delta of a text task")
        result = export_sentences(run, model, "gguf" if output.suffix == SUFFIX else "transformers", output, force)
        show_result(result, as_json, lambda: [output])
        return
    refuse_outputs([output], None, force)
    delta = Delta.load(file)
    if model is not None:
        from ....golden.train.text.integer_tuning import folder_state, prompts_of, with_tuned, wording_of
        from ....golden.train.text.sentence_model import sentence_model

        sentences = sentence_model(model, prompts_of(delta), wording_of(delta))
        save_state(output, with_tuned(sentences, delta, folder_state(model)), {}, force)
    elif weights is not None:
        tuned = delta.applied(load_state(weights))
        for name, tensor in tuned.items():
            if tensor.dtype is torch.bfloat16:
                raise UserError(f"{name} is bfloat16, which is not written: convert the base to float32 and tune that")
        save_state(output, {name: tensor.contiguous().numpy() for name, tensor in tuned.items()}, {}, force)
    show_result({"output": str(output)}, as_json, lambda: [output])


@command.command(cls=SectionedCommand, short_help="Add the deltas of several runs from the same base.")
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@section("Runs", option("--minus", multiple=True, type=FILE, help="A file that is subtracted; may be repeated."))
@section("Output", output, force, as_json)
def add(files: tuple[Path, ...], minus: tuple[Path, ...], output: Path, force: bool, as_json: bool) -> None:
    """Add the deltas of several runs from the same base, such as two tasks or two clients."""
    from ....golden.train.zo.delta_file import Delta
    from ...results import refuse_outputs

    refuse_outputs([output], None, force)
    total, *others = (Delta.load(file) for file in files)
    for other in others:
        total = total.plus(other)
    for file in minus:
        total = total.plus(Delta.load(file), -1)
    total.save(output, force)
    show_result({"output": str(output)}, as_json, lambda: [output])
