"""Schedule of a transformer on the chip: which operations run as one step, and where each value lies.

A linear layer's sums pass, as they leave the array, through an activation and through a sum or product with another
value. So what is between them is never stored.
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
class Step:
    """Operations that run at once.

    Parameters
    ----------
    number : int
        Of the first operation.
    activation : int or None
        Number of the activation that a linear layer's sums pass.
    joined : int or None
        Number of the residual or gate that they pass then.
    reads : tuple of int
        Numbers of the operations whose outputs the first one reads, -1 for the inputs.
    other : int or None
        Number of the value that joins; None where there is none.
    """

    number: int
    activation: int | None
    joined: int | None
    reads: tuple[int, ...]
    other: int | None

    @property
    def result(self) -> int:
        """Number of the operation whose outputs are stored."""
        found = (self.number, self.activation, self.joined)
        return max(one for one in found if one is not None)

    @property
    def needs(self) -> tuple[int, ...]:
        """Values that it reads."""
        return self.reads if self.other is None else (*self.reads, self.other)


@dataclass(frozen=True)
class Place:
    """Rows of a value in a memory: so many for each token of each side.

    Parameters
    ----------
    wide : bool
        In the memory of sums and norms' inputs, not in that of activations.
    first, rows : int
    """

    wide: bool
    first: int
    rows: int

    @property
    def end(self) -> int:
        """First row behind it."""
        return self.first + self.rows


@dataclass
class _Buffer:
    """Values that lie in one place, one after the other, and the first and last step that it is needed in."""

    wide: bool
    rows: int
    begin: int
    end: int
    values: list[int]

    def beside(self, other: _Buffer) -> bool:
        """Whether both are needed at once in one memory."""
        return self.wide == other.wide and self.begin <= other.end and other.begin <= self.end


@dataclass(frozen=True)
class Schedule:
    """Steps of a transformer, and places of their values.

    Parameters
    ----------
    transformer : IntegerTransformer
    lanes, columns : int
        Values in a row of the activation memory, and of the wide memory.
    cut : int
        Operation before which the network is cut: what passes there is stored. 0 for one that is not.

    Raises
    ------
    UserError
        If it is cut where the outputs of more than one operation pass, or of one that is not the last before the cut.
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
    def steps(self) -> tuple[Step, ...]:
        """Steps in the order in which they run."""
        network = self.transformer.network
        readers: dict[int, list[int]] = defaultdict(list)
        for number, reads in enumerate(network.reads):
            for read in reads:
                readers[read].append(number)
        known, found, absorbed = {INPUTS}, [], set[int]()
        for number, reads in enumerate(network.reads):
            if number in absorbed:
                continue
            activation = joined = other = None
            if isinstance(network.operations[number], Linear):
                result = number
                activation = self._only(readers[result], number, Activation)
                result = number if activation is None else activation
                # a square takes the product behind an activation
                squared = network.operations[result] == Activation("relu-squared")
                joined = None if squared else self._only(readers[result], number, Residual, Gate)
                if joined is not None:
                    others = [read for read in network.reads[joined] if read != result]
                    joined = joined if known.issuperset(others) else None
                    other = others[0] if others and joined is not None else None
            step = Step(number, activation, joined, reads, other)
            absorbed |= {one for one in (activation, joined) if one is not None}
            known.add(step.result)
            found.append(step)
        return tuple(found)

    def _only(self, readers: list[int], number: int, *kinds: type) -> int | None:
        """Number of the only reader, if it is of one of these kinds, and on the same side of a cut as an operation."""
        operations = self.transformer.network.operations
        if len(readers) != 1 or not isinstance(operations[readers[0]], kinds) or number < self.cut <= readers[0]:
            return None
        return readers[0]

    def rows_of(self, value: int) -> tuple[bool, int]:
        """Whether a value lies in the wide memory, and its rows for a token of a side."""
        network = self.transformer.network
        if value == INPUTS:
            readers = [one for one, reads in zip(network.operations, network.reads, strict=True) if INPUTS in reads]
            wide = all(isinstance(one, Normalisation | Residual | Positions) for one in readers)
            features = network.features
        else:
            wide, features = self.transformer.formats[value].width == Q11_16.width, network.shapes[value][0]
        return wide, -(-features // (self.columns if wide else self.lanes))

    @cached_property
    def places(self) -> dict[int, Place]:
        """Place of each value that is stored, by the number of its operation, -1 for the inputs.

        A step that works value by value writes its result over what it reads, if nothing reads that later. Values that
        share a place so are one buffer. The largest buffers are placed first, each in the lowest gap of its time.
        """
        last = {INPUTS: 0} | {step.result: number for number, step in enumerate(self.steps)}
        for number, step in enumerate(self.steps):
            last |= dict.fromkeys(step.needs, number)
        buffers = [_Buffer(*self.rows_of(INPUTS), 0, last[INPUTS], [INPUTS])]
        for number, step in enumerate(self.steps):
            wide, rows = self.rows_of(step.result)
            over = [value for value in self._replaceable(step) if last[value] == number]
            same = [one for one in buffers if (one.wide, one.rows) == (wide, rows) and one.values[-1] in over]
            if same:
                same[0].values.append(step.result)
                same[0].end = last[step.result]
            else:
                buffers.append(_Buffer(wide, rows, number, last[step.result], [step.result]))
        placed: list[tuple[_Buffer, Place]] = []
        for buffer in sorted(buffers, key=lambda one: -one.rows):
            beside = [place for one, place in placed if one.beside(buffer)]
            placed.append((buffer, Place(buffer.wide, _lowest(beside, buffer.rows), buffer.rows)))
        return {value: place for buffer, place in placed for value in buffer.values}

    def _replaceable(self, step: Step) -> tuple[int, ...]:
        """Values over which a step may write: of a linear layer what joins, of attention the queries."""
        operation = self.transformer.network.operations[step.number]
        if isinstance(operation, Linear):
            return () if step.other is None else (step.other,)
        return step.reads[:1] if isinstance(operation, SelfAttention) else step.reads

    @property
    def rows(self) -> int:
        """Rows of the activation memory that a token of a side needs; at least 1."""
        return max([1, *(place.end for place in self.places.values() if not place.wide)])

    @property
    def wide_rows(self) -> int:
        """Rows of the wide memory that a token of a side needs; at least 1."""
        return max([1, *(place.end for place in self.places.values() if place.wide)])


def _lowest(live: Iterable[Place], rows: int) -> int:
    """First row of the lowest gap of so many rows."""
    first = 0
    for place in sorted(live, key=lambda one: one.first):
        if place.first - first >= rows:
            break
        first = max(first, place.end)
    return first
