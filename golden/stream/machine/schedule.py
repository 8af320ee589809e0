"""Schedule of a transformer on the chip: operations fused to steps, and the buffer of each value.

A linear layer's sums pass an activation, and a sum or product with another value, on their way from the array. Values
between fused operations are never stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ...transformer.blocks import Activation, Gate, Linear, Normalisation, Positions, Residual, SelfAttention
from ...transformer.builder import INPUTS
from ..forward import IntegerTransformer
from ..norms import Q11_16


@dataclass(frozen=True)
class FusedStep:
    """Operations fused to a single step.

    A linear layer may have an activation, and then a residual or gate, `joined`, with the outputs of operation `other`.
    `reads` are the operands of the first operation: numbers of operations, or -1 for the inputs.
    """

    number: int
    activation: int | None
    joined: int | None
    reads: tuple[int, ...]
    other: int | None

    @property
    def result(self) -> int:
        operations = (self.number, self.activation, self.joined)
        return max(number for number in operations if number is not None)

    @property
    def needs(self) -> tuple[int, ...]:
        return self.reads if self.other is None else (*self.reads, self.other)


@dataclass(frozen=True)
class Allocation:
    """Rows of a value for each token of each side, in the wide memory (sums, norm inputs) or the activation memory."""

    wide: bool
    first: int
    rows: int

    @property
    def end(self) -> int:
        return self.first + self.rows


@dataclass
class _Buffer:
    """Rows that hold one or more values in succession, and the first and last step that needs the rows."""

    wide: bool
    rows: int
    begin: int
    end: int
    values: list[int]

    def beside(self, other: _Buffer) -> bool:
        """True if the two buffers are needed at once in the same memory."""
        return self.wide == other.wide and self.begin <= other.end and other.begin <= self.end


@dataclass(frozen=True)
class TransformerSchedule:
    """Steps of a transformer, and buffers of their values.

    `lanes` and `columns` are the values of a row of the activation memory and of the wide memory. The network is cut
    before operation `cut`, and the value at the cut is stored; 0 without a cut. Raises `UserError` if more than one
    output crosses the cut, or the crossing output is not the last one before it.
    """

    transformer: IntegerTransformer
    lanes: int = 32
    columns: int = 16
    cut: int = 0

    def __post_init__(self) -> None:
        if self.cut:
            network = self.transformer.network
            passing = network.crossing(self.cut)
            before = [step.result for step in self.steps if step.number < self.cut]
            if passing != before[-1]:
                raise network.error(
                    self.cut,
                    f"is no place for a cut ({self.cut}): {network.titles[passing]}, whose outputs pass, is not last",
                )

    @cached_property
    def steps(self) -> tuple[FusedStep, ...]:
        network = self.transformer.network
        readers: dict[int, list[int]] = defaultdict(list)
        for number, reads in enumerate(network.reads):
            for read in reads:
                readers[read].append(number)
        known, steps, absorbed = {INPUTS}, [], set[int]()
        for number, reads in enumerate(network.reads):
            if number in absorbed:
                continue
            activation = joined = other = None
            if isinstance(network.operations[number], Linear):
                result = number
                activation = self._only(readers[result], number, Activation)
                result = number if activation is None else activation
                # a squared ReLU uses the multiplier of the join
                squared = network.operations[result] == Activation("relu-squared")
                joined = None if squared else self._only(readers[result], number, Residual, Gate)
                if joined is not None:
                    others = [read for read in network.reads[joined] if read != result]
                    joined = joined if known.issuperset(others) else None
                    other = others[0] if others and joined is not None else None
            step = FusedStep(number, activation, joined, reads, other)
            absorbed |= {fused for fused in (activation, joined) if fused is not None}
            known.add(step.result)
            steps.append(step)
        return tuple(steps)

    def _only(self, readers: list[int], number: int, *kinds: type) -> int | None:
        """Only reader of operation `number`, if its kind is in `kinds` and no cut is between the two; else None."""
        operations = self.transformer.network.operations
        if len(readers) != 1 or not isinstance(operations[readers[0]], kinds) or number < self.cut <= readers[0]:
            return None
        return readers[0]

    def rows_of(self, value: int) -> tuple[bool, int]:
        """True for a value in the wide memory, and its number of rows for a token of a side."""
        network = self.transformer.network
        if value == INPUTS:
            readers = [
                reader for reader, reads in zip(network.operations, network.reads, strict=True) if INPUTS in reads
            ]
            wide = all(isinstance(reader, Normalisation | Residual | Positions) for reader in readers)
            features = network.features
        else:
            wide, features = self.transformer.formats[value].width == Q11_16.width, network.shapes[value][0]
        return wide, -(-features // (self.columns if wide else self.lanes))

    @cached_property
    def places(self) -> dict[int, Allocation]:
        """Rows of each stored value, by operation, -1 for the inputs.

        An elementwise step overwrites an operand without later readers: both values share a buffer. The largest buffers
        are placed first, each in the lowest gap during its lifetime.
        """
        last = {INPUTS: 0} | {step.result: number for number, step in enumerate(self.steps)}
        for number, step in enumerate(self.steps):
            last |= dict.fromkeys(step.needs, number)
        buffers = [_Buffer(*self.rows_of(INPUTS), 0, last[INPUTS], [INPUTS])]
        for number, step in enumerate(self.steps):
            wide, rows = self.rows_of(step.result)
            over = [value for value in self._replaceable(step) if last[value] == number]
            same = [other for other in buffers if (other.wide, other.rows) == (wide, rows) and other.values[-1] in over]
            if same:
                same[0].values.append(step.result)
                same[0].end = last[step.result]
            else:
                buffers.append(_Buffer(wide, rows, number, last[step.result], [step.result]))
        placed: list[tuple[_Buffer, Allocation]] = []
        for buffer in sorted(buffers, key=lambda other: -other.rows):
            beside = [place for other, place in placed if other.beside(buffer)]
            placed.append((buffer, Allocation(buffer.wide, _lowest(beside, buffer.rows), buffer.rows)))
        return {value: place for buffer, place in placed for value in buffer.values}

    def _replaceable(self, step: FusedStep) -> tuple[int, ...]:
        """Values that a step may overwrite: the joined value of a linear layer, the queries of attention."""
        operation = self.transformer.network.operations[step.number]
        if isinstance(operation, Linear):
            return () if step.other is None else (step.other,)
        return step.reads[:1] if isinstance(operation, SelfAttention) else step.reads

    @property
    def rows(self) -> int:
        """Rows of the activation memory for a token of a side, at least 1."""
        return max([1, *(place.end for place in self.places.values() if not place.wide)])

    @property
    def wide_rows(self) -> int:
        """Rows of the wide memory for a token of a side, at least 1."""
        return max([1, *(place.end for place in self.places.values() if place.wide)])


def _lowest(live: Iterable[Allocation], rows: int) -> int:
    first = 0
    for place in sorted(live, key=lambda candidate: candidate.first):
        if place.first - first >= rows:
            break
        first = max(first, place.end)
    return first
