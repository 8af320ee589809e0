"""`fabtune import` of a transformer: operations, bytes, ranges, saturation, and the cost of a step on core presets."""

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

SENTENCES, TOKENS = 16, 32
"""Sentences of a step, and tokens of each sentence without samples."""

GGUF = ".gguf"
"""Suffix of a language model in one file."""

Rows = tuple[NDArray[np.floating[Any]], tuple[int, ...]]
"""Rows of the tokens of all sentences, and tokens of each sentence."""


@dataclass(frozen=True)
class TransformerRequest:
    """Options of the command.

    ``samples`` is an NPZ file for a model of samples, multiplied by ``scale``; ``sentences`` is a text with a sentence
    per line, for a folder.
    """

    model: OwnNetwork
    samples: Path | None = None
    sentences: Path | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class _Imported:
    """An imported transformer, with facts on where it came from."""

    builder: TransformerBuilder
    last: int
    network: Transformer
    parameters: Parameters
    facts: dict[str, Any]
    rows: Rows | None
    tokens: int


def is_language_model(path: Path) -> bool:
    """Whether a path is a folder or a GGUF file."""
    return path.is_dir() or path.suffix == GGUF


def run(request: TransformerRequest) -> dict[str, Any] | None:
    """Import a transformer and describe it.

    Returns
    -------
    dict or None
        ``network``, ``parameters``, ``operations``, ``macs_per_token``, ``tokens``, ``bytes``, ``formats``,
        ``left_to_host``, ``presets``, ``advice`` and the facts of the origin; None for a model that is no transformer.
    """
    folder = Path(request.model.model)
    imported = _of_folder(folder, request) if is_language_model(folder) else _of_model(request)
    if imported is None:
        return None
    network, tokens = imported.network, imported.tokens
    base = frozen_base(network, imported.parameters, "nf4")
    operations = _operations(imported, base)
    return {
        "network": network.name,
        **imported.facts,
        "parameters": sum(map(prod, network.parameter_shapes.values())),
        "tokens": tokens,
        "macs_per_token": round(sum(products(network, (tokens,))) / tokens),
        "bytes": _bytes(network),
        "formats": {"activations": str(Q8_16), "weights": f"NF4, a scale of {SCALE_BITS} bits for {BLOCK} inputs"},
        "operations": operations,
        "step": {"sentences": SENTENCES, "tokens": tokens},
        "presets": _costs(imported),
        "advice": [*_advice(imported, base, operations)],
    }


def _of_folder(folder: Path, request: TransformerRequest) -> _Imported:
    """Read a folder of the library `transformers`, or a GGUF file, and the embeddings of the sentences."""
    options = request.model
    for name, value in (("--weights", options.weights), ("--input", options.shape), ("--samples", request.samples)):
        if value is not None:
            raise UserError(f"{name} has no meaning with the language model {folder}: leave it out")
    model = read_gguf(folder) if folder.suffix == GGUF else read_folder(folder)
    network, parameters = model.builder.finish()
    facts = {
        "input": ["tokens", network.features],
        "left_to_host": [f"embeddings of {len(model.words):,} words"],
        "converted": list(model.converted),
        "unused": list(model.unused),
    }
    rows, tokens = None, TOKENS
    if request.sentences:
        from ...golden.train.text.sentence_model import longest, read_model, tokens_of

        sentences = [line for line in lines_of(read_text(request.sentences)) if line.strip()]
        if not sentences:
            raise UserError(f"{request.sentences} has no sentence: write one on each line")
        numbers = tokens_of(read_model(folder)[1], sentences, longest(network))
        is_token = numbers >= 0
        lengths = tuple(map(int, is_token.sum(axis=1)))
        rows, tokens = (model.rows(numbers[is_token]), lengths), max(1, round(float(np.mean(lengths))))
        facts |= {"sentences": len(lengths), "longest_sentence": max(lengths)}
    return _Imported(model.builder, model.last, network, parameters, facts, rows, tokens)


def _of_model(request: TransformerRequest) -> _Imported | None:
    """Import a module or an ONNX file; convert samples to rows."""
    options = request.model
    options.check_file()
    transformer = own_transformer(options.model, options.shape, options.weights)
    if transformer is None:
        return None
    if request.sentences:
        raise UserError(f"--sentences is for a folder with a tokenizer: {options.model} takes --samples FILE.npz")
    network, parameters = transformer.builder.finish()
    facts = {
        "input": list(transformer.input_shape),
        "left_to_host": [transformer.left_to_host] if transformer.left_to_host else [],
        "converted": [],
        "unused": [],
    }
    tokens, rows = len(transformer.places), None
    if request.samples:
        samples = inputs_of(request.samples, request.scale)
        # samples of sequences count as images of height 1
        if samples.shape not in (transformer.input_shape, with_height(transformer.input_shape)):
            shapes = f"{transformer.input_shape}, {request.samples} has {samples.shape}"
            raise UserError(f"{network.name} takes samples of {shapes}")
        flat = np.pad(samples.values().reshape(len(samples), -1), ((0, 0), (0, 1)))
        rows = flat[:, transformer.places].reshape(-1, network.features), (tokens,) * len(samples)
        facts["samples"] = len(samples)
    return _Imported(transformer.builder, transformer.last, network, parameters, facts, rows, tokens)


def _operations(imported: _Imported, base: FrozenBase) -> list[dict[str, Any]]:
    network, parameters = imported.network, imported.parameters
    ranges = operation_ranges(base, parameters, *imported.rows) if imported.rows else None
    macs = products(network, (imported.tokens,))
    listed = []
    for number, operation in enumerate(network.operations):
        tensors = {kind: values for (of, kind), values in parameters.items() if of == number}
        facts: dict[str, Any] = {
            "operation": number,
            "name": network.titles[number],
            "kind": type(operation).__name__,
            "reads": list(network.reads[number]),
            "features": network.shapes[number][0],
            "parameters": sum(values.size for values in tensors.values()),
            "macs": macs[number],
            "format": str(base.transformer.formats[number]),
        }
        if tensors:
            facts["largest"] = max(float(np.abs(values).max()) for values in tensors.values())
        if "weight" in tensors:
            facts["weight_format"] = str(base.transformer.format_of((number, "weight")))
            facts["nf4_error"] = base.errors[number, "weight"]
        if ranges:
            facts |= asdict(ranges[number])
        listed.append(facts)
    return listed


def _bytes(network: Transformer) -> dict[str, int]:
    """Bytes of codes, scales, and other parameters at 4 bytes each."""
    shapes = network.parameter_shapes
    matrices = [shape for (_, kind), shape in shapes.items() if kind == "weight"]
    blocks = sum(outputs * -(-inputs // BLOCK) for outputs, inputs in matrices)
    rest = sum(prod(shape) for (_, kind), shape in shapes.items() if kind != "weight")
    return {"codes": blocks * BLOCK // 2, "scales": blocks * SCALE_BITS // 8, "others": 4 * rest}


def _costs(imported: _Imported) -> list[dict[str, Any]]:
    """Time and bytes of a step on the presets of cores."""
    network = with_head(imported.network, imported.builder, imported.last)
    return preset_costs(on_paper(network), (imported.tokens,) * SENTENCES)


def with_head(network: Transformer, builder: TransformerBuilder, last: int) -> Transformer:
    """A transformer, with a mean and two classes if it has no head; ``last`` is the builder's last hidden state."""
    if network.shapes[-1][1]:
        return network
    builder.add("head", Linear(2), builder.pool("mean", last, "mean"))
    return builder.network()


def _advice(imported: _Imported, base: FrozenBase, operations: list[dict[str, Any]]) -> Iterator[str]:
    titles, wide = imported.network.titles, dict[int, Format]()
    if imported.rows:
        largest = {operation["operation"]: max(-operation["least"], operation["most"]) for operation in operations}
        wide = activation_formats(base.transformer, largest)
    for operation in operations:
        if operation.get("saturated"):
            percent = 100 * operation["saturated"] / operation["values"]
            wider = wide.get(operation["operation"])
            remedy = f"tune takes {wider} for it" if wider else "it follows from what is clipped before it"
            yield (
                f"{operation['name']}: {percent:.3g} % of {operation['values']:,} values saturate in "
                f"{operation['format']}, of {operation['least']:.4g} to {operation['most']:.4g}; {remedy}"
            )
    for (number, kind), count in base.clipped.items():
        yield f"{titles[number]}: {count} values of its {kind} saturate in {Q8_16}, -128 to 128"
    if any(shape[1] % 32 for (_, kind), shape in imported.network.parameter_shapes.items() if kind == "weight"):
        yield "inputs that are no multiple of 32 leave lanes of the array's last tiles empty"
    if imported.facts["converted"]:
        yield f"weights of {', '.join(imported.facts['converted'])}, which float32 holds exactly"
    if imported.facts["unused"]:
        yield f"not used, as they are behind the last hidden state: {', '.join(imported.facts['unused'])}"


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show the result of `run` as tables; returns the lines below the tables; parameters as for `network.summary`."""
    operations, measured = result["operations"], "saturated" in result["operations"][0]
    columns = ["", "name", "operation", "reads", "features", "parameters", "MACs", "format", "largest", "NF4 error"]
    rows = []
    for operation in operations:
        row = [
            str(operation["operation"]),
            operation["name"],
            operation["kind"],
            " ".join(_read(read) for read in operation["reads"]),
        ]
        row += [f"{operation[which]:,}" for which in ("features", "parameters", "macs")]
        row += [operation["format"], f"{operation['largest']:.3g}" if "largest" in operation else ""]
        row.append(f"{100 * operation['nf4_error']:.2g} %" if "nf4_error" in operation else "")
        if measured:
            row += [
                f"{operation['least']:.3g} to {operation['most']:.3g}",
                f"{operation['saturated']:,}",
                f"{100 * operation['error']:.2g} %",
            ]
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
