"""Cost of a transformer's zeroth-order step: memory, and time on the cores' presets and on other arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...boards.board import BOARDS, DEFAULT_MHZ, Board
from ...boards.sweep.design import ShapesWorkload
from ...golden.errors import UserError
from ...golden.importers.transformers.language_models.gguf_file import read_gguf
from ...golden.importers.transformers.language_models.shapes import PUBLISHED, shapes_of
from ...golden.models.text import NETWORKS
from ...golden.stream.machine.core_size import DEFAULT_SIZE, PORT_SHARE, CoreSize
from ...golden.stream.machine.cost_model import StepCost, on_paper
from ...golden.transformer.blocks import Linear, Transformer
from ...golden.transformer.float_bytes import FloatBytes, float_bytes
from ...golden.transformer.layers import layer_starts
from ...golden.transformer.sample_model import TRANSFORMERS
from ...golden.zo.coefficient import LARGEST_BATCH
from .preset_costs import Show, measured_step, preset_costs, show_measured, show_presets, step_figures
from .sentences import GGUF

DEFAULT_NETWORK = "minilm"
NAMES = (*PUBLISHED, *TRANSFORMERS)
"""Published and preset transformers."""
MOST_TOKENS = 100_000
"""Largest number of tokens of a sentence."""
_CLASSES = 2
_FUNCTION_DSPS = 50
"""Number of DSP slices for norm, activations, softmax and loss, from the design."""


def is_transformer(name: str) -> bool:
    """True for the name of a published or preset transformer, a GGUF file, or a folder that is no preset network."""
    known = name in PUBLISHED or name in TRANSFORMERS or name.endswith(GGUF)
    return known or (name not in NETWORKS and Path(name).is_dir())


@dataclass(frozen=True)
class TransformerCost:
    """Report of `fabtune cost` on a transformer.

    Parameters
    ----------
    name : str
        One of `PUBLISHED` or `TRANSFORMERS`, or a folder.
    sentences, tokens : int
        Sentences of a step, and tokens of each; a model with a fixed number of tokens ignores the second.
    from_layer : int
        First tuned layer; outputs of earlier layers come from a cache.
    arrays : tuple of str
        Further arrays, as lanes x columns, which only the cost model computes.
    measure : str, optional
        Preset on whose compiled RTL the step is simulated too.
    """

    name: str
    sentences: int
    tokens: int
    from_layer: int = 0
    arrays: tuple[str, ...] = ()
    measure: str | None = None

    def run(self, stage: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
        """All figures of the report; `stage` is called with the name of each part of a simulation.

        Raises
        ------
        UserError
            If the model is unknown or lacks the layer, or a core cannot run it.
        """
        network, embeddings, fixed_tokens = transformer_of(self.name)
        tokens, starts = fixed_tokens or self.tokens, (0, *layer_starts(network)[1:])
        if self.from_layer >= len(starts):
            raise UserError(f"{self.name} has layers 0 to {len(starts) - 1}, not {self.from_layer}")
        transformer, lengths, first_tuned = on_paper(network), (tokens,) * self.sentences, starts[self.from_layer]
        costs = {array: StepCost(transformer, lengths, CoreSize.of_array(array), first_tuned) for array in self.arrays}
        first = next(iter(costs.values()), StepCost(transformer, lengths, DEFAULT_SIZE, first_tuned))
        floats = float_bytes(network, embeddings, lengths)
        measured = {"measured": measured_step(self.measure, transformer, lengths, stage)} if self.measure else {}
        return {
            "network": self.name,
            "parameters": {"network": sum(map(prod, network.parameter_shapes.values())), "embeddings": embeddings},
            "sentences": self.sentences,
            "tokens": tokens,
            "from_layer": self.from_layer,
            "multiply_accumulates": first.products,
            "presets": preset_costs(transformer, lengths, first_tuned),
            "arrays": {array: _time(cost) for array, cost in costs.items()},
            "kinds": _kinds(first),
            "memory": _memory(first, floats, embeddings),
            **measured,
            "assumptions": _assumptions(),
        }


def shapes_workload(settings: Mapping[str, Any]) -> ShapesWorkload:
    """Workload of a sweep: a transformer by its shapes, and the sentences of a step.

    Settings are ``network`` or ``model`` (as for `fabtune cost`), ``sentences`` and ``tokens``.

    Raises
    ------
    UserError
        If the transformer is unknown, or a number is out of range.
    """
    name = str(settings.get("model") or settings.get("network", DEFAULT_NETWORK))
    if not is_transformer(name):
        raise UserError(f"training: {name} is no transformer: give one of {', '.join((*PUBLISHED, *TRANSFORMERS))}")
    network, _, fixed_tokens = transformer_of(name)
    sentences, tokens = (int(settings.get(part, count)) for part, count in (("sentences", 16), ("tokens", 32)))
    for part, count, most in (("sentences", sentences, LARGEST_BATCH), ("tokens", tokens, MOST_TOKENS)):
        if not 1 <= count <= most:
            raise UserError(f"training.{part} = {count} is not in 1 to {most}")
    return ShapesWorkload(on_paper(network), (fixed_tokens or tokens,) * sentences)


def transformer_of(name: str) -> tuple[Transformer, int, int]:
    """Network of a model, number of parameters of its embeddings, and tokens of a sample (0: any number).

    Language models get a head of two classes.
    """
    if name in TRANSFORMERS:
        preset = TRANSFORMERS[name](0)
        return preset.network, 0, len(preset.places)
    if name.endswith(GGUF):
        model = read_gguf(Path(name))
    else:
        model = shapes_of(PUBLISHED[name], name) if name in PUBLISHED else shapes_of(Path(name))
    builder = model.builder
    if model.causal:
        pooled = builder.pool("last token", model.last, "last")
    else:
        pooled = builder.unit_length("unit length", builder.pool("mean", model.last, "mean"))
    builder.add("head", Linear(_CLASSES), pooled)
    return builder.network(), prod(model.words.shape), 0


def _time(cost: StepCost) -> dict[str, Any]:
    seconds = cost.cycles / (DEFAULT_MHZ * 1e6)
    return {
        **step_figures(cost),
        "passes": len(cost.passes),
        "sides_at_once": cost.passes[0].sides,
        "longest_sentence": cost.capacity,
        "fits": cost.fits,
        "steps_per_hour": {name: _per_hour(cost, board, seconds) for name, board in BOARDS.items()},
    }


def _per_hour(cost: StepCost, board: Board, seconds: float) -> int | None:
    """Steps per hour on a board; None if it has too few DSP slices, or too little memory for the buffers."""
    size, has = cost.size, board.resources
    dsps = size.multipliers + 2 * size.lanes - 1 + _FUNCTION_DSPS
    words = (24 * size.lanes, size.rows), (27 * size.columns, size.wide_rows)
    if has["uram"]:
        enough = sum(-(-bits // 72) * -(-rows // 4096) for bits, rows in words) <= has["uram"]
    else:
        enough = sum(-(-bits // 72) * -(-rows // 512) for bits, rows in words) <= has["bram36"]
    return int(3600 / seconds) if dsps <= has["dsp"] and enough else None


def _kinds(cost: StepCost) -> dict[str, dict[str, Any]]:
    """Cycles, products and stream bytes by kind of operation; cycles also by bound. ``outside`` is the remainder."""
    kinds: dict[str, dict[str, Any]] = {"outside": {"cycles": cost.outside, "products": 0, "bytes": 0, "bounds": {}}}
    for operation in cost.operations:
        kind = kinds.setdefault(
            operation.kind, {"cycles": 0.0, "products": 0, "bytes": 0, "bounds": defaultdict(float)}
        )
        kind["cycles"] += operation.cycles
        kind["products"] += operation.products
        kind["bytes"] += operation.read
        kind["bounds"][operation.bound] += operation.cycles
    return {
        name: {**kind, "cycles": round(kind["cycles"]), "bounds": {key: round(n) for key, n in kind["bounds"].items()}}
        for name, kind in kinds.items()
    }


def _memory(cost: StepCost, floats: FloatBytes, embeddings: int) -> dict[str, dict[str, int]]:
    """Bytes in DRAM and on the chip; for comparison, bytes of MeZO and of back-propagation in floats."""
    core = asdict(cost.bytes) | {"embeddings": 2 * embeddings}
    return {
        "streaming core": core | {"sum": sum(core.values())},
        "MeZO float16": {"weights": floats.weights, "activations": floats.largest, "sum": floats.mezo},
        "back-propagation": {
            "weights": floats.weights,
            "gradients, copy and moments": floats.states,
            "activations": floats.kept,
            "sum": floats.backpropagation,
        },
    }


def _assumptions() -> list[str]:
    default = CoreSize()
    return [
        "Cycles are a model, which the page of the core holds against its RTL; other arrays are on paper.",
        f"Clock {DEFAULT_MHZ:g} MHz; a memory port gives {PORT_SHARE:g} of 16 bytes a cycle, {default.port_bytes:.1f}.",
        f"Buffers of {default.rows:,} rows of {default.lanes} activations and {default.wide_rows:,} rows of "
        f"{default.columns} sums, as many values with other arrays.",
        "Both sides of a slope are computed, one operation after the other; 4 sums a cycle leave the array.",
        "Steps an hour are left out where a board has too few DSP slices, or too little memory for the buffers.",
        "Matrices are NF4 with a scale for each 64 inputs; embeddings lie with the host, in 2 bytes a value.",
        f"The head has {_CLASSES} classes: a label's word each, or a prompt.",
        "MeZO holds float16 weights and the activations that are needed at once. Back-propagation keeps all of them, "
        "and has 16 bytes a parameter: float16 weight and gradient, float32 copy, Adam's moments.",
    ]


def show(result: dict[str, Any], table: Show, line: Callable[[str], None]) -> None:
    """Print the result of `TransformerCost.run`."""
    title = f"{result['network']}, {result['sentences']} sentences of {result['tokens']} tokens"
    title += f", layers from {result['from_layer']} on" if result["from_layer"] else ""
    line(f"{title}: {result['multiply_accumulates']:,} multiply-accumulates a step")
    for refusal in show_presets(result["presets"], title, table):
        line(refusal)
    if "measured" in result:
        show_measured(result["measured"], table)
    if result["arrays"]:
        _show_arrays(result["arrays"], title, table)
    first = next(iter(result["arrays"]), f"{DEFAULT_SIZE.lanes}x{DEFAULT_SIZE.columns}")
    kinds = [
        [kind, f"{sums['cycles']:,}", f"{sums['products']:,}", f"{sums['bytes']:,}", ", ".join(sums["bounds"])]
        for kind, sums in result["kinds"].items()
    ]
    table(("operation", "cycles", "products", "bytes of stream", "bound by"), kinds, f"{first}, a step by operation")
    memory = [[of, part, f"{value:,}"] for of, parts in result["memory"].items() for part, value in parts.items()]
    table(("memory", "part", "bytes"), memory, "Memory")
    for array, figures in result["arrays"].items():
        if not figures["fits"]:
            line(
                f"{array}: a sentence has at most {figures['longest_sentence']} tokens in these buffers, not "
                f"{result['tokens']}; the figures are those of a core with larger ones"
            )
        elif figures["sides_at_once"] == 1:
            line(f"{array}: a sentence of both sides is not in the buffers at once: one side comes behind the other")
    for assumption in result["assumptions"]:
        line(assumption)


def _show_arrays(arrays: dict[str, Any], title: str, table: Show) -> None:
    columns = (
        "array",
        "cycles",
        "array use",
        "bytes read",
        "written",
        "steps/s",
        *(f"steps/h {figures}" for figures in BOARDS),
    )
    rows = [
        [
            array,
            f"{figures['cycles']:,}",
            f"{100 * figures['array_use']:.0f} %",
            f"{figures['bytes_read']:,}",
            f"{figures['bytes_written']:,}",
            f"{figures['steps_per_second']:.3g}",
            *("-" if value is None else f"{value:,}" for value in figures["steps_per_hour"].values()),
        ]
        for array, figures in arrays.items()
    ]
    table(columns, rows, title)
