"""Cost model of a step of training on the streaming core, on paper: cycles, bytes and products by operation.

Both sides of a slope come from one stream of weights. A pass takes as many whole sentences as the buffers hold. In it
each step of the schedule takes as long as the slowest of array, loading of tiles, offsets, memory port and function
units, and then empties its pipelines: the next one begins behind it. The page of the core holds it against the RTL.
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
from .schedule import Schedule, Step

SIDES = 2
TIMES, NUMBERS = 255, 31
"""Words after which deltas return, and numbers of each, a cycle each."""
VECTOR_CYCLES = 1.2
"""Cycles that a value of a norm's factors, of a position or of a rotation takes, whose offset comes before it."""
VALUE_BYTES = 4
LATENCY, UNIT_LATENCY, BLOCK_LATENCY = 60, 32, 5
"""Cycles of an operation, of a pass of a row's norm, and of a block of attention, in which pipelines fill and empty."""
MEAN_CYCLES, COPY_CYCLES = 36, 8
"""Cycles in which a chunk of sums becomes one of means, and in which a chunk is copied."""
DELTA_BYTES = TIMES * NUMBERS * 4
"""Bytes of the folded deltas, whatever the network."""


def on_paper(network: Transformer) -> IntegerTransformer:
    """Make the integers' network without tensors: all weights are Q4.14.

    Raises
    ------
    UserError
        If an operation has no integers.
    """
    form = Format(4, WEIGHT_BITS - 4)
    return IntegerTransformer(network, {name: form for name in network.parameter_shapes if is_weight(name)})


class Pass(NamedTuple):
    """Sentences that are on the chip at once.

    Parameters
    ----------
    lengths : tuple of int
        Tokens of each.
    sides : int
        2 where both are there, 1 where one comes behind the other.
    """

    lengths: tuple[int, ...]
    sides: int

    @property
    def rows(self) -> int:
        """Tokens of all sides."""
        return self.sides * sum(self.lengths)


@dataclass(frozen=True)
class OperationCost:
    """Cost of one step of the schedule in a whole step of training.

    Parameters
    ----------
    number : int
        Of the operation that it begins with.
    title, kind : str
        Its name in the user's model, and what it is.
    cycles : float
    bound : str
        What takes longest: ``array``, ``loading``, ``offsets``, ``DRAM`` or ``functions``.
    products : int
        Multiply-accumulates.
    read : int
        Bytes of the stream.
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
    """Bytes of a network in DRAM and on the chip.

    Parameters
    ----------
    codes, scales : int
        Of all matrices, whole records.
    vectors : int
        Biases, norms' factors and positions, 4 bytes a value.
    deltas : int
    activations, keys_values : int
        Largest of a pass, with 24 or 27 bits a value.
    """

    codes: int
    scales: int
    vectors: int
    deltas: int
    activations: int
    keys_values: int


@dataclass(frozen=True)
class StepCost:
    """Cost of a step of training: one slope of a batch of sentences.

    Parameters
    ----------
    transformer : IntegerTransformer
    lengths : tuple of int
        Tokens of each sentence.
    size : CoreSize
    first : int
        Operation from which on it is computed: the rows before it come from a cache in DRAM.

    Raises
    ------
    UserError
        If there is no sentence, a length is out of range, or there is no such operation.
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

    # -- what is on the chip -------------------------------------------------------------------------------------------

    @cached_property
    def schedule(self) -> Schedule:
        """Steps and places."""
        return Schedule(self.transformer, self.size.lanes, self.size.columns)

    @cached_property
    def capacity(self) -> int:
        """Tokens of a side that the buffers hold."""
        need, size = self.schedule, self.size
        return min(size.rows // need.rows, size.wide_rows // need.wide_rows, size.sums)

    @property
    def fits(self) -> bool:
        """Whether the longest sentence is in the buffers, at least one side at a time."""
        return max(self.lengths) <= self.capacity

    @cached_property
    def passes(self) -> tuple[Pass, ...]:
        """Passes of as many whole sentences as have room, in their order; one side at a time where it must be.

        A sentence that does not fit is a pass of its own, as if the buffers were larger.
        """
        longest = max(self.lengths)
        sides = SIDES if SIDES * longest <= self.capacity else 1
        most = max(self.capacity // sides, longest)
        return tuple(Pass(group, sides) for group in _groups(self.lengths, most) for _ in range(SIDES // sides))

    # -- cycles --------------------------------------------------------------------------------------------------------

    @cached_property
    def operations(self) -> tuple[OperationCost, ...]:
        """Cost of each step of the schedule, from `first` on."""
        return tuple(self._cost(step) for step in self.schedule.steps if step.number >= self.first)

    @property
    def cycles(self) -> float:
        """Cycles of a step."""
        return self.outside + sum(one.cycles for one in self.operations)

    @property
    def outside(self) -> float:
        """Cycles beside the operations: a perturbation, samples of each pass, an update."""
        words = TransformerModel(self.transformer, {}, lanes=self.size.lanes, columns=self.size.columns).words
        return SIDES * NUMBERS * min(words, TIMES) + self._entering / self.size.port_bytes

    @property
    def products(self) -> int:
        """Multiply-accumulates of both sides."""
        return sum(one.products for one in self.operations)

    @property
    def ideal_cycles(self) -> float:
        """Cycles in which the array could compute its products, if it had nothing else to wait for."""
        return self.products / self.size.multipliers

    @property
    def bytes_read(self) -> int:
        """Bytes that a step reads from DRAM: the stream once a pass, and the rows of inputs, or of the cache."""
        return sum(one.read for one in self.operations) + self._entering

    @property
    def _entering(self) -> int:
        """Bytes of the rows that enter."""
        network, entering = self.transformer.network, {INPUTS}
        if self.first:
            kept = [step for step in self.schedule.steps if step.number >= self.first]
            entering = {read for step in kept for read in step.needs} - {step.result for step in kept}
        features = [network.features if read < 0 else network.shapes[read][0] for read in entering]
        rows = sum(token_beats(count) for count in features)
        return BEAT * sum(rows * sum(one.lengths) for one in self.passes)

    @property
    def bytes_written(self) -> int:
        """Bytes that a step writes to DRAM: its record."""
        return ZerothOrderLayout.record_beats(len(self.lengths)) * BEAT

    def _cost(self, step: Step) -> OperationCost:
        operation, network = self.transformer.network.operations[step.number], self.transformer.network
        total = read = 0.0
        longest: dict[str, float] = {}
        for one in self.passes:
            bounds, stream, after = self._bounds(step, one)
            bounds["DRAM"] = stream / self.size.stream_bytes
            total += max(bounds.values()) + after
            read += stream
            longest = {name: longest.get(name, 0.0) + value for name, value in bounds.items()}
        bound = max(longest, key=lambda name: longest[name])
        title, kind = network.titles[step.number], type(operation).__name__
        return OperationCost(step.number, title, kind, total, bound, SIDES * self._products[step.number], int(read))

    @cached_property
    def _products(self) -> tuple[int, ...]:
        """Multiply-accumulates of each operation, of one side."""
        return products(self.transformer.network, self.lengths)

    def _bounds(self, step: Step, one: Pass) -> tuple[dict[str, float], int, float]:
        """Cycles by what bounds them, bytes of the stream, and cycles that nothing hides, of a step in one pass."""
        network, size = self.transformer.network, self.size
        operation, inputs = network.operations[step.number], network.inputs(step.number)
        features, pooled = network.shapes[step.result]
        rows = one.sides * len(one.lengths) if pooled else one.rows
        vectors, chunks = self._vector_bytes(step.number, one), -(-features // size.columns)
        # their offsets come one by one, and their unit waits for them
        wait = VECTOR_CYCLES * vectors / VALUE_BYTES
        match operation:
            case Linear():
                bounds, after = self._linear(step, one, rows)
                return bounds, matrix_beats(size, features, inputs, coded=True) * BEAT + vectors, after
            case SelfAttention():
                bounds, after = self._attention(operation, one)
                return bounds, 0, after
            case Normalisation():
                return {"functions": rows * -(-features // size.norm_lanes)}, vectors, wait + LATENCY
            case UnitLength():
                return {"functions": 3 * rows * (-(-features // LANES) + UNIT_LATENCY)}, 0, LATENCY
            case Positions():
                return {"functions": rows * features / LANES}, vectors, wait
            case PoolTokens():
                mean = operation.kind == "mean"
                return {"functions": chunks * (mean * one.rows + rows * (MEAN_CYCLES if mean else COPY_CYCLES))}, 0, 0
            case Activation() | Gate() | Residual():
                return {"functions": rows * features / LANES}, 0, LATENCY

    def _linear(self, step: Step, one: Pass, rows: int) -> tuple[dict[str, float], float]:
        """Bounds of a linear layer, and what its last sums take: each group of columns drains beside the next one."""
        network, size = self.transformer.network, self.size
        features, inputs = network.shapes[step.number][0], network.inputs(step.number)
        groups, tiles = -(-features // size.columns), -(-inputs // size.lanes)
        summed, drained = tiles * rows, rows * size.columns / LANES
        # the array waits where a value that joins is read from the memory of its rows
        joined = step.other is not None and not self.schedule.places[step.other].wide
        loading = max(one.sides * size.load_cycles, size.dequantisation_cycles)
        bounds = {
            "array": groups * (summed + joined * rows),
            "loading": float(groups * tiles * loading),
            "offsets": float(groups * tiles * NUMBERS),
            "functions": groups * drained,
        }
        after = min(summed, drained) - rows + LATENCY + size.lanes
        # biases are on their way beside any other operation, but not beside a linear layer, which holds its own
        begins = self.schedule.steps.index(step)
        behind = begins and isinstance(network.operations[self.schedule.steps[begins - 1].number], Linear)
        if behind and (step.number, "bias") in network.parameter_shapes:
            after += features
        return bounds, after

    def _vector_bytes(self, number: int, one: Pass) -> int:
        """Bytes of an operation's biases, factors or positions in a pass, 4 bytes a value, whole beats."""
        shapes, found = self.transformer.network.parameter_shapes, 0
        for kind in ("bias", "factor", "position"):
            if shape := shapes.get((number, kind)):
                found += vector_beats(shape[-1]) * BEAT * (max(one.lengths) if kind == "position" else 1)
        return found

    def _attention(self, operation: SelfAttention, one: Pass) -> tuple[dict[str, float], float]:
        """Bounds of attention, and rotations before it: keys, then values are tiles; what is not seen is left out.

        A token's keys are a column of a tile, its values a lane; one token is loaded a cycle. Scores and contexts of a
        block of queries leave the array as sums of a layer do.
        """
        size, width = self.size, operation.width
        lanes, columns, rows_of_head = size.lanes, size.columns, -(-width // size.lanes)
        array, drained, blocks = 0, 0.0, 0
        for length in one.lengths:
            for begin in range(0, length, MOST_QUERIES):
                end = min(begin + MOST_QUERIES, length)
                # queries that see a key, for each key that any of them sees
                seen = [end - max(begin, key if operation.causal else begin) for key in range(end)]
                seen += [] if operation.causal else [end - begin] * (length - end)
                phases = [(rows_of_head * max(queries, columns), queries) for queries in seen[::columns]]
                contexts = sum(max(queries, lanes) for queries in seen[::lanes])
                phases += [(contexts, end - begin)] * -(-width // columns)
                array += sum(passed for passed, _ in phases)
                drained += sum(max(passed, left * columns / LANES) for passed, left in phases)
                blocks += 1
        heads, turned = one.sides * operation.heads, 0.0
        if operation.rotary_base is not None:
            turned = one.rows * (operation.heads + operation.key_heads) * width / LANES
            turned += max(one.lengths) * (VECTOR_CYCLES * width + 2 * width / columns + 14)
        after = turned + heads * blocks * BLOCK_LATENCY + LATENCY
        return {"array": float(heads * array), "functions": heads * drained}, after

    # -- bytes ---------------------------------------------------------------------------------------------------------

    @cached_property
    def bytes(self) -> StreamBytes:
        """Bytes of the network, and of the largest pass."""
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
        most = max(one.rows for one in self.passes)
        held = max(
            (2 * one.key_heads * one.width for one in network.operations if isinstance(one, SelfAttention)),
            default=0,
        )
        bits = 24 * schedule.rows * self.size.lanes + 27 * schedule.wide_rows * self.size.columns
        kept = most * held * 24 // 8
        codes, activations = whole - scales, most * bits // 8 - kept
        return StreamBytes(BEAT * codes, BEAT * scales, BEAT * vectors, DELTA_BYTES, activations, kept)


def _groups(lengths: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Whole sentences, in their order, as long as there is room for so many tokens."""
    ends, tokens = [0], 0
    for number, length in enumerate(lengths):
        if tokens and tokens + length > most:
            ends.append(number)
            tokens = 0
        tokens += length
    return [lengths[begin:end] for begin, end in pairwise([*ends, len(lengths)])]
