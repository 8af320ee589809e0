"""Estimated cycles, bytes and products of a training step on the streaming core, by operation.

One weight stream serves both sides of a projected gradient. A pass takes as many whole sentences as the buffers hold.
Each schedule step takes as long as the slowest of array, tile loading, offsets, memory port and function units. Its
pipelines then drain before the next step. The core's page compares the estimate with the RTL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ...axi.bus import BEAT
from ...errors import UserError
from ...fixed import Format
from ...transformer.blocks import (
    Activation,
    Gate,
    Linear,
    Normalisation,
    PoolTokens,
    Positions,
    Residual,
    SelfAttention,
    Transformer,
    UnitLength,
)
from ...transformer.builder import INPUTS
from ...transformer.layers import products
from ...zo.memory_layout import ZerothOrderLayout
from ..forward import WEIGHT_BITS, IntegerTransformer, is_weight
from ..frozen_base import BLOCK
from ..memory.samples import token_beats
from ..transformer_model import TransformerModel
from .core_size import DEFAULT_SIZE, LANES, MOST_QUERIES, CoreSize
from .layout import matrix_beats, scale_beats, vector_beats
from .schedule import FusedStep, TransformerSchedule

SIDES = 2
TIMES, NUMBERS = 255, 31
"""Period of the deltas in words, and numbers per word, one per cycle."""
VECTOR_CYCLES = 1.2
"""Cycles a value of a norm's factors, a position or a rotation; each waits for its offset."""
VALUE_BYTES = 4
LATENCY, UNIT_LATENCY, BLOCK_LATENCY = 60, 32, 5
"""Fill and drain cycles of an operation, of a row's pass through the unit-length norm, and of an attention block."""
MEAN_CYCLES, COPY_CYCLES = 36, 8
"""Cycles to divide a chunk of sums into means, and to copy a chunk."""
DELTA_BYTES = TIMES * NUMBERS * 4
"""Bytes of the folded deltas, whatever the network."""


def on_paper(network: Transformer) -> IntegerTransformer:
    """Integer network without tensors: all weights are Q4.14.

    Raises `UserError` if an operation has no integer model.
    """
    form = Format(4, WEIGHT_BITS - 4)
    return IntegerTransformer(network, {name: form for name in network.parameter_shapes if is_weight(name)})


class Pass(NamedTuple):
    """Sentences on the chip at once, of `lengths` tokens; `sides` is 2, or 1 if the sides run one after the other."""

    lengths: tuple[int, ...]
    sides: int

    @property
    def rows(self) -> int:
        """Tokens on the chip, both sides included."""
        return self.sides * sum(self.lengths)


@dataclass(frozen=True)
class OperationCost:
    """Cost, in one training step, of the operations from `number` on that are fused to one schedule step.

    `bound` is the slowest resource: ``array``, ``loading``, ``offsets``, ``DRAM`` or ``functions``. `products` counts
    the multiply-accumulates, `read` the bytes read from the stream.
    """

    number: int
    title: str
    kind: str
    cycles: float
    bound: str
    products: int
    read: int


@dataclass(frozen=True)
class StreamBytes:
    """Bytes of a network in DRAM, in whole records, and of its largest pass on the chip, with 24 or 27 bits per value.

    `vectors` are biases, norm factors and positions, 4 bytes per value.
    """

    codes: int
    scales: int
    vectors: int
    deltas: int
    activations: int
    keys_values: int


@dataclass(frozen=True)
class StepCost:
    """Cost of a training step: one projected gradient of a batch of sentences with `lengths` tokens.

    Operations before `first` are not computed: a cache in DRAM holds their rows. Raises `UserError` if the batch is
    empty, or a length or `first` is out of range.
    """

    transformer: IntegerTransformer
    lengths: tuple[int, ...]
    size: CoreSize = DEFAULT_SIZE
    first: int = 0

    def __post_init__(self) -> None:
        network = self.transformer.network
        if not self.lengths:
            raise UserError("a step has at least one sentence")
        network.check_lengths(self.lengths)
        if not 0 <= self.first < len(network.operations):
            raise UserError(f"first = {self.first}: {network.name} has operations 0 to {len(network.operations) - 1}")

    # -- buffers -------------------------------------------------------------------------------------------------------

    @cached_property
    def schedule(self) -> TransformerSchedule:
        return TransformerSchedule(self.transformer, self.size.lanes, self.size.columns)

    @cached_property
    def capacity(self) -> int:
        need, size = self.schedule, self.size
        return min(size.rows // need.rows, size.wide_rows // need.wide_rows, size.sums)

    @property
    def fits(self) -> bool:
        """True if the buffers hold the longest sentence, at least one side at a time."""
        return max(self.lengths) <= self.capacity

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """Passes of as many whole sentences as fit, in order; one side at a time if necessary.

        A sentence too long for the buffers is a pass of its own, as if they were larger.
        """
        longest = max(self.lengths)
        sides = SIDES if SIDES * longest <= self.capacity else 1
        most = max(self.capacity // sides, longest)
        return tuple(Pass(group, sides) for group in _groups(self.lengths, most) for _ in range(SIDES // sides))

    # -- cycles --------------------------------------------------------------------------------------------------------

    @cached_property
    def operations(self) -> tuple[OperationCost, ...]:
        return tuple(self._cost(step) for step in self.schedule.steps if step.number >= self.first)

    @property
    def cycles(self) -> float:
        return self.outside + sum(operation.cycles for operation in self.operations)

    @property
    def outside(self) -> float:
        """Cycles of a step outside the operations: perturbation, loading of each pass's samples, update."""
        words = TransformerModel(self.transformer, {}, lanes=self.size.lanes, columns=self.size.columns).words
        return SIDES * NUMBERS * min(words, TIMES) + self._entering / self.size.port_bytes

    @property
    def products(self) -> int:
        """Multiply-accumulates of both sides."""
        return sum(operation.products for operation in self.operations)

    @property
    def ideal_cycles(self) -> float:
        return self.products / self.size.multipliers

    @property
    def bytes_read(self) -> int:
        """Bytes read from DRAM: the stream once per pass, and the rows of inputs or of the cache."""
        return sum(operation.read for operation in self.operations) + self._entering

    @property
    def _entering(self) -> int:
        network, entering = self.transformer.network, {INPUTS}
        if self.first:
            steps = [step for step in self.schedule.steps if step.number >= self.first]
            entering = {read for step in steps for read in step.needs} - {step.result for step in steps}
        features = [network.features if read < 0 else network.shapes[read][0] for read in entering]
        rows = sum(token_beats(count) for count in features)
        return BEAT * sum(rows * sum(pass_.lengths) for pass_ in self.passes)

    @property
    def bytes_written(self) -> int:
        """Bytes written to DRAM: the step's record."""
        return ZerothOrderLayout.record_beats(len(self.lengths)) * BEAT

    def _cost(self, step: FusedStep) -> OperationCost:
        operation, network = self.transformer.network.operations[step.number], self.transformer.network
        total = read = 0.0
        longest: dict[str, float] = {}
        for pass_ in self.passes:
            bounds, stream, after = self._bounds(step, pass_)
            bounds["DRAM"] = stream / self.size.stream_bytes
            total += max(bounds.values()) + after
            read += stream
            longest = {name: longest.get(name, 0.0) + value for name, value in bounds.items()}
        bound = max(longest, key=lambda name: longest[name])
        title, kind = network.titles[step.number], type(operation).__name__
        return OperationCost(step.number, title, kind, total, bound, SIDES * self._products[step.number], int(read))

    @cached_property
    def _products(self) -> tuple[int, ...]:
        return products(self.transformer.network, self.lengths)

    def _bounds(self, step: FusedStep, pass_: Pass) -> tuple[dict[str, float], int, float]:
        """Cost of a schedule step in one pass: cycles by resource, bytes of the stream, cycles without overlap."""
        network, size = self.transformer.network, self.size
        operation, inputs = network.operations[step.number], network.inputs(step.number)
        features, pooled = network.shapes[step.result]
        rows = pass_.sides * len(pass_.lengths) if pooled else pass_.rows
        vectors, chunks = self._vector_bytes(step.number, pass_), -(-features // size.columns)
        # offsets of vectors arrive one by one, and the unit waits for them
        wait = VECTOR_CYCLES * vectors / VALUE_BYTES
        match operation:
            case Linear():
                bounds, after = self._linear(step, pass_, rows)
                return bounds, matrix_beats(size, features, inputs, coded=True) * BEAT + vectors, after
            case SelfAttention():
                bounds, after = self._attention(operation, pass_)
                return bounds, 0, after
            case Normalisation():
                return {"functions": rows * -(-features // size.norm_lanes)}, vectors, wait + LATENCY
            case UnitLength():
                return {"functions": 3 * rows * (-(-features // LANES) + UNIT_LATENCY)}, 0, LATENCY
            case Positions():
                return {"functions": rows * features / LANES}, vectors, wait
            case PoolTokens():
                mean = operation.kind == "mean"
                return (
                    {"functions": chunks * (mean * pass_.rows + rows * (MEAN_CYCLES if mean else COPY_CYCLES))},
                    0,
                    0,
                )
            case Activation() | Gate() | Residual():
                return {"functions": rows * features / LANES}, 0, LATENCY

    def _linear(self, step: FusedStep, pass_: Pass, rows: int) -> tuple[dict[str, float], float]:
        """Cycles of a linear layer by resource, and of its last sums; other sums drain during the next group."""
        network, size = self.transformer.network, self.size
        features, inputs = network.shapes[step.number][0], network.inputs(step.number)
        groups, tiles = -(-features // size.columns), -(-inputs // size.lanes)
        summed, drained = tiles * rows, rows * size.columns / LANES
        # the array waits for each joined value from the activation memory
        joined = step.other is not None and not self.schedule.places[step.other].wide
        loading = max(pass_.sides * size.load_cycles, size.dequantisation_cycles)
        bounds = {
            "array": groups * (summed + joined * rows),
            "loading": float(groups * tiles * loading),
            "offsets": float(groups * tiles * NUMBERS),
            "functions": groups * drained,
        }
        after = min(summed, drained) - rows + LATENCY + size.lanes
        # biases load during any other operation, but a linear layer occupies the bias memory until its end
        position = self.schedule.steps.index(step)
        behind = position and isinstance(network.operations[self.schedule.steps[position - 1].number], Linear)
        if behind and (step.number, "bias") in network.parameter_shapes:
            after += features
        return bounds, after

    def _vector_bytes(self, number: int, pass_: Pass) -> int:
        shapes, total = self.transformer.network.parameter_shapes, 0
        for kind in ("bias", "factor", "position"):
            if shape := shapes.get((number, kind)):
                total += vector_beats(shape[-1]) * BEAT * (max(pass_.lengths) if kind == "position" else 1)
        return total

    def _attention(self, operation: SelfAttention, pass_: Pass) -> tuple[dict[str, float], float]:
        """Cycles of attention and its rotations by resource; masked keys cost nothing.

        Tiles hold keys for the scores and values for the contexts. A token's key is a column of a tile, its value a
        lane; a token loads in one cycle. Scores and contexts of a block of queries leave the array like a layer's sums.
        """
        size, width = self.size, operation.width
        lanes, columns, rows_of_head = size.lanes, size.columns, -(-width // size.lanes)
        array, drained, blocks = 0, 0.0, 0
        for length in pass_.lengths:
            for begin in range(0, length, MOST_QUERIES):
                end = min(begin + MOST_QUERIES, length)
                # for each visible key the number of queries that see it
                seen = [end - max(begin, key if operation.causal else begin) for key in range(end)]
                seen += [] if operation.causal else [end - begin] * (length - end)
                phases = [(rows_of_head * max(queries, columns), queries) for queries in seen[::columns]]
                contexts = sum(max(queries, lanes) for queries in seen[::lanes])
                phases += [(contexts, end - begin)] * -(-width // columns)
                array += sum(passed for passed, _ in phases)
                drained += sum(max(passed, drained_rows * columns / LANES) for passed, drained_rows in phases)
                blocks += 1
        heads, turned = pass_.sides * operation.heads, 0.0
        if operation.rotary_base is not None:
            turned = pass_.rows * (operation.heads + operation.key_heads) * width / LANES
            turned += max(pass_.lengths) * (VECTOR_CYCLES * width + 2 * width / columns + 14)
        after = turned + heads * blocks * BLOCK_LATENCY + LATENCY
        return {"array": float(heads * array), "functions": heads * drained}, after

    # -- bytes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def bytes(self) -> StreamBytes:
        network, schedule = self.transformer.network, self.schedule
        shapes = network.parameter_shapes
        matrices = [shape for (_, kind), shape in shapes.items() if kind == "weight"]
        whole = sum(matrix_beats(self.size, outputs, inputs, coded=True) for outputs, inputs in matrices)
        records = sum(-(-inputs // BLOCK) * -(-outputs // self.size.columns) for outputs, inputs in matrices)
        scales = records * scale_beats(self.size)
        vectors = sum(
            vector_beats(shape[-1]) * (shape[0] if kind == "position" else 1)
            for (_, kind), shape in shapes.items()
            if kind != "weight"
        )
        most = max(op.rows for op in self.passes)
        held = max(
            (2 * op.key_heads * op.width for op in network.operations if isinstance(op, SelfAttention)),
            default=0,
        )
        bits = 24 * schedule.rows * self.size.lanes + 27 * schedule.wide_rows * self.size.columns
        keys_values = most * held * 24 // 8
        codes, activations = whole - scales, most * bits // 8 - keys_values
        return StreamBytes(BEAT * codes, BEAT * scales, BEAT * vectors, DELTA_BYTES, activations, keys_values)


def _groups(lengths: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    ends, tokens = [0], 0
    for number, length in enumerate(lengths):
        if tokens and tokens + length > most:
            ends.append(number)
            tokens = 0
        tokens += length
    return [lengths[begin:end] for begin, end in pairwise([*ends, len(lengths)])]
