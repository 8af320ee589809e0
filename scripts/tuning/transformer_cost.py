"""Cost of a step of zeroth-order training of a transformer: time on presets of cores and other arrays, and memory."""

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
MOST_TOKENS = 100_000
"""Most tokens of a sentence."""
_CLASSES = 2
_FUNCTION_DSPS = 50
"""DSP slices of norm, activations, softmax and loss, by the design."""


def is_transformer(name: str) -> bool:
    """Tell whether a name is that of a published or preset transformer, a GGUF file, or a folder that is no preset."""
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
        Of a step, and of each sentence; without effect where a sample has a number of tokens.
    from_layer : int
        First layer that is tuned: what is below comes from a cache.
    arrays : tuple of str
        Lanes x columns of further arrays, on paper.
    measure : str, optional
        Preset on whose compiled RTL the step is simulated, too.
    """

    name: str
    sentences: int
    tokens: int
    from_layer: int = 0
    arrays: tuple[str, ...] = ()
    measure: str | None = None

    def run(self, stage: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
        """Compute all figures.

        Parameters
        ----------
        stage : callable
            Called with the name of each part of a simulation as it begins.

        Raises
        ------
        UserError
            If there is no such model, or the core has no place for it.
        """
        network, embeddings, own_tokens = transformer_of(self.name)
        tokens, starts = own_tokens or self.tokens, (0, *layer_starts(network)[1:])
        if self.from_layer >= len(starts):
            raise UserError(f"{self.name} has layers 0 to {len(starts) - 1}, not {self.from_layer}")
        transformer, lengths, first_one = on_paper(network), (tokens,) * self.sentences, starts[self.from_layer]
        costs = {array: StepCost(transformer, lengths, CoreSize.of_array(array), first_one) for array in self.arrays}
        first = next(iter(costs.values()), StepCost(transformer, lengths, DEFAULT_SIZE, first_one))
        floats = float_bytes(network, embeddings, lengths)
        measured = {"measured": measured_step(self.measure, transformer, lengths, stage)} if self.measure else {}
        return {
            "network": self.name,
            "parameters": {"network": sum(map(prod, network.parameter_shapes.values())), "embeddings": embeddings},
            "sentences": self.sentences,
            "tokens": tokens,
            "from_layer": self.from_layer,
            "multiply_accumulates": first.products,
            "presets": preset_costs(transformer, lengths, first_one),
            "arrays": {array: _time(cost) for array, cost in costs.items()},
            "kinds": _kinds(first),
            "memory": _memory(first, floats, embeddings),
            **measured,
            "assumptions": _assumptions(),
        }


def shapes_workload(settings: Mapping[str, Any]) -> ShapesWorkload:
    """Make the workload of a sweep: a transformer by its shapes and the sentences of a step.

    Parameters
    ----------
    settings : dict
        ``network`` or ``model`` as of `fabtune cost`, ``sentences`` and ``tokens``.

    Raises
    ------
    UserError
        If there is no such transformer, or a number is out of range.
    """
    name = str(settings.get("model") or settings.get("network", DEFAULT_NETWORK))
    if not is_transformer(name):
        raise UserError(f"training: {name} is no transformer: give one of {', '.join((*PUBLISHED, *TRANSFORMERS))}")
    network, _, own_tokens = transformer_of(name)
    sentences, tokens = (int(settings.get(part, count)) for part, count in (("sentences", 16), ("tokens", 32)))
    for part, count, most in (("sentences", sentences, LARGEST_BATCH), ("tokens", tokens, MOST_TOKENS)):
        if not 1 <= count <= most:
            raise UserError(f"training.{part} = {count} is not in 1 to {most}")
    return ShapesWorkload(on_paper(network), (own_tokens or tokens,) * sentences)


def transformer_of(name: str) -> tuple[Transformer, int, int]:
    """Network of a model, parameters of its embeddings, and tokens of a sample, 0 where sentences have any number.

    Language models have a head of two classes.
    """
    if name in TRANSFORMERS:
        preset = TRANSFORMERS[name](0)
        return preset.network, 0, len(preset.places)
    if name.endswith(GGUF):
        found = read_gguf(Path(name))
    else:
        found = shapes_of(PUBLISHED[name], name) if name in PUBLISHED else shapes_of(Path(name))
    made = found.builder
    if found.causal:
        pooled = made.pool("last token", found.last, "last")
    else:
        pooled = made.unit_length("unit length", made.pool("mean", found.last, "mean"))
    made.add("head", Linear(_CLASSES), pooled)
    return made.network(), prod(found.words.shape), 0


def _time(cost: StepCost) -> dict[str, Any]:
    """Figures of one array."""
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
    """Steps an hour; None where the board has fewer DSP slices, or less memory for the buffers."""
    size, has = cost.size, board.resources
    dsps = size.multipliers + 2 * size.lanes - 1 + _FUNCTION_DSPS
    words = (24 * size.lanes, size.rows), (27 * size.columns, size.wide_rows)
    if has["uram"]:
        enough = sum(-(-bits // 72) * -(-rows // 4096) for bits, rows in words) <= has["uram"]
    else:
        enough = sum(-(-bits // 72) * -(-rows // 512) for bits, rows in words) <= has["bram36"]
    return int(3600 / seconds) if dsps <= has["dsp"] and enough else None


def _kinds(cost: StepCost) -> dict[str, dict[str, Any]]:
    """Cycles, products and bytes of the stream by kind of operation, and by what bounds the cycles; those outside."""
    found: dict[str, dict[str, Any]] = {"outside": {"cycles": cost.outside, "products": 0, "bytes": 0, "bounds": {}}}
    for one in cost.operations:
        kind = found.setdefault(one.kind, {"cycles": 0.0, "products": 0, "bytes": 0, "bounds": defaultdict(float)})
        kind["cycles"] += one.cycles
        kind["products"] += one.products
        kind["bytes"] += one.read
        kind["bounds"][one.bound] += one.cycles
    return {
        name: {**kind, "cycles": round(kind["cycles"]), "bounds": {key: round(n) for key, n in kind["bounds"].items()}}
        for name, kind in found.items()
    }


def _memory(cost: StepCost, floats: FloatBytes, embeddings: int) -> dict[str, dict[str, int]]:
    """Bytes in DRAM and on the chip, and those of MeZO and back-propagation in floats."""
    own = asdict(cost.bytes) | {"embeddings": 2 * embeddings}
    return {
        "streaming core": own | {"sum": sum(own.values())},
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
    """Print what `TransformerCost.run` has found."""
    title = f"{result['network']}, {result['sentences']} sentences of {result['tokens']} tokens"
    title += f", layers from {result['from_layer']} on" if result["from_layer"] else ""
    line(f"{title}: {result['multiply_accumulates']:,} multiply-accumulates a step")
    for one in show_presets(result["presets"], title, table):
        line(one)
    if "measured" in result:
        show_measured(result["measured"], table)
    if result["arrays"]:
        _show_arrays(result["arrays"], title, table)
    first = next(iter(result["arrays"]), f"{DEFAULT_SIZE.lanes}x{DEFAULT_SIZE.columns}")
    kinds = [
        [kind, f"{one['cycles']:,}", f"{one['products']:,}", f"{one['bytes']:,}", ", ".join(one["bounds"])]
        for kind, one in result["kinds"].items()
    ]
    table(("operation", "cycles", "products", "bytes of stream", "bound by"), kinds, f"{first}, a step by operation")
    memory = [[of, part, f"{value:,}"] for of, parts in result["memory"].items() for part, value in parts.items()]
    table(("memory", "part", "bytes"), memory, "Memory")
    for array, one in result["arrays"].items():
        if not one["fits"]:
            line(
                f"{array}: a sentence has at most {one['longest_sentence']} tokens in these buffers, not "
                f"{result['tokens']}; the figures are those of a core with larger ones"
            )
        elif one["sides_at_once"] == 1:
            line(f"{array}: a sentence of both sides is not in the buffers at once: one side comes behind the other")
    for one in result["assumptions"]:
        line(one)


def _show_arrays(arrays: dict[str, Any], title: str, table: Show) -> None:
    """Show a step on arrays that were asked for."""
    columns = (
        "array",
        "cycles",
        "array use",
        "bytes read",
        "written",
        "steps/s",
        *(f"steps/h {one}" for one in BOARDS),
    )
    rows = [
        [
            array,
            f"{one['cycles']:,}",
            f"{100 * one['array_use']:.0f} %",
            f"{one['bytes_read']:,}",
            f"{one['bytes_written']:,}",
            f"{one['steps_per_second']:.3g}",
            *("-" if value is None else f"{value:,}" for value in one["steps_per_hour"].values()),
        ]
        for array, one in arrays.items()
    ]
    table(columns, rows, title)
