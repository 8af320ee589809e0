"""`fabtune import` of a transformer: operations, bytes, ranges, what saturates, and a step on presets of cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.datasets.npz import inputs_of
from ...golden.errors import UserError
from ...golden.files import lines_of, read_text
from ...golden.fixed import Q8_16, Format
from ...golden.importers.layers.axes import with_height
from ...golden.importers.transformers.language_models.folder import read_folder
from ...golden.importers.transformers.language_models.gguf_file import read_gguf
from ...golden.importers.transformers.own_model import own_transformer
from ...golden.stream.calibration import activation_formats, operation_ranges
from ...golden.stream.frozen_base import BLOCK, SCALE_BITS, FrozenBase, frozen_base
from ...golden.stream.machine.cost_model import on_paper
from ...golden.transformer.blocks import Linear, Parameters, Transformer
from ...golden.transformer.builder import TransformerBuilder
from ...golden.transformer.layers import products
from ..own_network import OwnNetwork
from ..tuning.preset_costs import preset_costs, show_presets

_SENTENCES, _TOKENS = 16, 32
"""Sentences of a step, and tokens of each where no samples say it."""

GGUF = ".gguf"
"""Suffix of a language model in one file."""

Rows = tuple[NDArray[np.floating[Any]], tuple[int, ...]]
"""Rows of the tokens of all sentences, and how many each sentence has."""


@dataclass(frozen=True)
class TransformerRequest:
    """Options of the command.

    Parameters
    ----------
    model : OwnNetwork
    samples : Path or None
        NPZ file, for a model of samples.
    sentences : Path or None
        Text with a sentence a line, for a folder.
    scale : float
        Factor of the samples.
    """

    model: OwnNetwork
    samples: Path | None = None
    sentences: Path | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class _Imported:
    """A transformer with what is known of its origin."""

    builder: TransformerBuilder
    last: int
    network: Transformer
    parameters: Parameters
    facts: dict[str, Any]
    rows: Rows | None
    tokens: int


def is_language_model(path: Path) -> bool:
    """Tell whether a path is that of a folder, or of a GGUF file."""
    return path.is_dir() or path.suffix == GGUF


def run(request: TransformerRequest) -> dict[str, Any] | None:
    """Import a transformer and describe it.

    Returns
    -------
    dict or None
        ``network``, ``parameters``, ``operations``, ``macs_per_token``, ``tokens``, ``bytes``, ``formats``,
        ``left_to_host``, ``presets``, ``advice`` and what is known of the origin; None for what is no transformer.
    """
    folder = Path(request.model.model)
    found = _of_folder(folder, request) if is_language_model(folder) else _of_model(request)
    if found is None:
        return None
    network, tokens = found.network, found.tokens
    base = frozen_base(network, found.parameters, "nf4")
    operations = _operations(found, base)
    costs = _costs(found)
    return {
        "network": network.name,
        **found.facts,
        "parameters": sum(map(prod, network.parameter_shapes.values())),
        "tokens": tokens,
        "macs_per_token": round(sum(products(network, (tokens,))) / tokens),
        "bytes": _bytes(network),
        "formats": {"activations": str(Q8_16), "weights": f"NF4, a scale of {SCALE_BITS} bits for {BLOCK} inputs"},
        "operations": operations,
        "step": {"sentences": _SENTENCES, "tokens": tokens},
        "presets": costs,
        "advice": [*_advice(found, base, operations)],
    }


def _of_folder(folder: Path, request: TransformerRequest) -> _Imported:
    """Read a folder of the library `transformers`, or a GGUF file, and the embeddings of the sentences."""
    own = request.model
    for name, given in (("--weights", own.weights), ("--input", own.shape), ("--samples", request.samples)):
        if given is not None:
            raise UserError(f"{name} has no meaning with the language model {folder}: leave it out")
    model = read_gguf(folder) if folder.suffix == GGUF else read_folder(folder)
    network, parameters = model.builder.finish()
    facts = {
        "input": ["tokens", network.features],
        "left_to_host": [f"embeddings of {len(model.words):,} words"],
        "converted": list(model.converted),
        "unused": list(model.unused),
    }
    rows, tokens = None, _TOKENS
    if request.sentences:
        from ...golden.train.text.sentence_model import longest, read_model, tokens_of

        sentences = [one for one in lines_of(read_text(request.sentences)) if one.strip()]
        if not sentences:
            raise UserError(f"{request.sentences} has no sentence: write one on each line")
        numbers = tokens_of(read_model(folder)[1], sentences, longest(network))
        there = numbers >= 0
        lengths = tuple(map(int, there.sum(axis=1)))
        rows, tokens = (model.rows(numbers[there]), lengths), max(1, round(float(np.mean(lengths))))
        facts |= {"sentences": len(lengths), "longest_sentence": max(lengths)}
    return _Imported(model.builder, model.last, network, parameters, facts, rows, tokens)


def _of_model(request: TransformerRequest) -> _Imported | None:
    """Import a module or an ONNX file, and the rows of the samples."""
    own = request.model
    own.check_file()
    found = own_transformer(own.model, own.shape, own.weights)
    if found is None:
        return None
    if request.sentences:
        raise UserError(f"--sentences is for a folder with a tokenizer: {own.model} takes --samples FILE.npz")
    network, parameters = found.builder.finish()
    facts = {
        "input": list(found.input_shape),
        "left_to_host": [found.left_to_host] if found.left_to_host else [],
        "converted": [],
        "unused": [],
    }
    tokens, rows = len(found.places), None
    if request.samples:
        samples = inputs_of(request.samples, request.scale)
        # rows are read as maps of one row
        if samples.shape not in (found.input_shape, with_height(found.input_shape)):
            shapes = f"{found.input_shape}, {request.samples} has {samples.shape}"
            raise UserError(f"{network.name} takes samples of {shapes}")
        flat = np.pad(samples.values().reshape(len(samples), -1), ((0, 0), (0, 1)))
        rows = flat[:, found.places].reshape(-1, network.features), (tokens,) * len(samples)
        facts["samples"] = len(samples)
    return _Imported(found.builder, found.last, network, parameters, facts, rows, tokens)


def _operations(found: _Imported, base: FrozenBase) -> list[dict[str, Any]]:
    """Describe all operations, with ranges where there are samples."""
    network, parameters = found.network, found.parameters
    ranges = operation_ranges(base, parameters, *found.rows) if found.rows else None
    macs = products(network, (found.tokens,))
    listed = []
    for number, operation in enumerate(network.operations):
        own = {kind: values for (of, kind), values in parameters.items() if of == number}
        one: dict[str, Any] = {
            "operation": number,
            "name": network.titles[number],
            "kind": type(operation).__name__,
            "reads": list(network.reads[number]),
            "features": network.shapes[number][0],
            "parameters": sum(values.size for values in own.values()),
            "macs": macs[number],
            "format": str(base.transformer.formats[number]),
        }
        if own:
            one["largest"] = max(float(np.abs(values).max()) for values in own.values())
        if "weight" in own:
            one["weight_format"] = str(base.transformer.format_of((number, "weight")))
            one["nf4_error"] = base.errors[number, "weight"]
        if ranges:
            one |= asdict(ranges[number])
        listed.append(one)
    return listed


def _bytes(network: Transformer) -> dict[str, int]:
    """Bytes of codes, scales, and what is no matrix, 4 bytes a value."""
    shapes = network.parameter_shapes
    matrices = [shape for (_, kind), shape in shapes.items() if kind == "weight"]
    blocks = sum(outputs * -(-inputs // BLOCK) for outputs, inputs in matrices)
    rest = sum(prod(shape) for (_, kind), shape in shapes.items() if kind != "weight")
    return {"codes": blocks * BLOCK // 2, "scales": blocks * SCALE_BITS // 8, "others": 4 * rest}


def _costs(found: _Imported) -> list[dict[str, Any]]:
    """Time and bytes of a step on presets of cores; a model without a head has a mean and two classes."""
    network = found.network
    if not network.shapes[-1][1]:
        made = found.builder
        made.add("head", Linear(2), made.pool("mean", found.last, "mean"))
        network = made.network()
    return preset_costs(on_paper(network), (found.tokens,) * _SENTENCES)


def _advice(found: _Imported, base: FrozenBase, operations: list[dict[str, Any]]) -> Iterator[str]:
    """Say what is clipped, coarse, converted or not used, and what to do."""
    titles, wide = found.network.titles, dict[int, Format]()
    if found.rows:
        largest = {one["operation"]: max(-one["least"], one["most"]) for one in operations}
        wide = activation_formats(base.transformer, largest)
    for one in operations:
        if one.get("saturated"):
            percent = 100 * one["saturated"] / one["values"]
            other = wide.get(one["operation"])
            remedy = f"tune takes {other} for it" if other else "it follows from what is clipped before it"
            yield (
                f"{one['name']}: {percent:.3g} % of {one['values']:,} values saturate in {one['format']}, of "
                f"{one['least']:.4g} to {one['most']:.4g}; {remedy}"
            )
    for (number, kind), count in base.clipped.items():
        yield f"{titles[number]}: {count} values of its {kind} saturate in {Q8_16}, -128 to 128"
    if any(shape[1] % 32 for (_, kind), shape in found.network.parameter_shapes.items() if kind == "weight"):
        yield "inputs that are no multiple of 32 leave lanes of the array's last tiles empty"
    if found.facts["converted"]:
        yield f"weights of {', '.join(found.facts['converted'])}, which float32 holds exactly"
    if found.facts["unused"]:
        yield f"not used, as they are behind the last hidden state: {', '.join(found.facts['unused'])}"


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show what `run` gave as tables, and return the lines below them; parameters as of `network.summary`."""
    operations, measured = result["operations"], "saturated" in result["operations"][0]
    columns = ["", "name", "operation", "reads", "features", "parameters", "MACs", "format", "largest", "NF4 error"]
    rows = []
    for one in operations:
        row = [str(one["operation"]), one["name"], one["kind"], " ".join(_read(read) for read in one["reads"])]
        row += [f"{one[which]:,}" for which in ("features", "parameters", "macs")]
        row += [one["format"], f"{one['largest']:.3g}" if "largest" in one else ""]
        row.append(f"{100 * one['nf4_error']:.2g} %" if "nf4_error" in one else "")
        if measured:
            row += [f"{one['least']:.3g} to {one['most']:.3g}", f"{one['saturated']:,}", f"{100 * one['error']:.2g} %"]
        rows.append(row)
    more = ["outputs", "saturated", "error"] if measured else []
    show([*columns, *more], rows, f"{result['network']}, {' x '.join(map(str, result['input']))}")
    step = f"a step of {result['step']['sentences']} samples of {result['step']['tokens']} tokens, both sides"
    refused = [*show_presets(result["presets"], step, show)]
    held = result["bytes"]
    return [
        f"{result['parameters']:,} parameters, {result['macs_per_token']:,} multiply-accumulates a token of "
        f"{result['tokens']}; {held['codes']:,} bytes of codes, {held['scales']:,} of scales, {held['others']:,} of "
        "biases, norms and positions",
        *(f"left to the host: {what}" for what in result["left_to_host"]),
        *refused,
        *result["advice"],
    ]


def _read(number: int) -> str:
    return "samples" if number < 0 else str(number)
