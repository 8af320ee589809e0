"""Order of a network's parameters in a perturbation: generator cycles for each word of the array's memories.

Words of biases come first, as the first stage needs them with its first outputs; words of weights follow in the order
of the weight memory. A stage's biases begin at a word: each stage has its own words, and both parts of a cut network
keep the words of the whole. Parameter j of a word takes number ``j mod n`` of its cycle in every perturbation, so a
word has only n different sums of updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from ..errors import UserError
from ..fixed import Integers
from ..nn.arithmetic.forward import StageIntegers
from ..nn.array.images import weight_positions
from ..nn.array.mapping import Mapping
from .rows import BiasGroups, Deadline, RowRange, Rows

ROWS = 512
"""Rows of a block RAM at its widest port: fewer words of deltas take as many block RAMs."""
WIDEST = 64
"""Largest word, in parameters, while delta rows are free: with 31 numbers about two parameters share one."""


@dataclass(frozen=True)
class PerturbationMapping:
    """Words of a perturbation of a network's parameters, or of contiguous stages.

    Parameters
    ----------
    forward : Mapping
        Network on the array.
    first : int
        First perturbed stage.
    last : int, optional
        End of the perturbed stages, by default the network's.
    period : int
        Period of the generator's numbers in cycles: words at this distance share rows of deltas and offsets, see
        `golden.zo.deltas`. 0 for a row for each word.
    """

    forward: Mapping
    first: int = 0
    last: int | None = None
    period: int = 0

    def __post_init__(self) -> None:
        if self.forward.pairs == "frozen":
            raise UserError(f"{self.forward.name}: weights that stand twice would get two perturbations")

    @property
    def stages(self) -> range:
        return range(len(self.forward.stages))[self.first : self.last]

    def parts(self, cut: int) -> tuple[PerturbationMapping, ...]:
        """Words of both parts of a network cut before stage `cut`; for 0, words of the whole network."""
        return tuple(replace(self, first=first, last=last) for first, last in ((0, cut), (cut, None)) if last != 0)

    @cached_property
    def cycles(self) -> int:
        """Number of generator cycles for each word of the array's memories: 1, 2, 4 or 8.

        A network of few words leaves most of a block RAM of deltas empty. A perturbation's word is then a part of the
        array's, and fewer parameters share a number.
        """
        cycles, largest = 1, self.forward.lanes * self.forward.columns
        while largest > WIDEST * cycles and self._rows(2 * cycles) <= ROWS:
            cycles *= 2
        return cycles

    @property
    def width(self) -> int:
        """Parameters of a word: one for each multiplier, divided by `cycles`."""
        return self.forward.lanes * self.forward.columns // self.cycles

    @property
    def bias_words(self) -> int:
        return self.bias_starts[self.stages.stop] - self.bias_starts[self.stages.start]

    @property
    def words(self) -> int:
        """Number of a perturbation's words: generator cycles."""
        return self.bias_words + self.weight_starts[self.stages.stop] - self.weight_starts[self.stages.start]

    @cached_property
    def delta_rows(self) -> Rows:
        """Rows of the whole network's deltas, and of both parts of each cut."""
        whole = replace(self, first=0, last=None)
        parts = (whole.parts(cut) for cut in range(1, len(self.forward.stages)))
        return Rows(
            whole=whole.row_range,
            cuts=tuple((first.row_range, second.row_range) for first, second in parts),
            words=whole.words,
            bias_groups=self._bias_groups,
            most_groups=self._most_groups,
            columns=self.forward.columns,
            weight_rows=self.cycles,
            period=self.period,
        )

    @property
    def all_rows(self) -> int:
        return self.period or self.weight_starts[-1]

    @property
    def rows(self) -> Integers:
        """Row of each word's deltas in the whole network, (words,); with a `period`, the rows of one period."""
        return self.row_range.numbers

    @cached_property
    def row_range(self) -> RowRange:
        """Rows of the words' deltas in the whole network; with a `period`, the rows of one period."""
        if self.period:
            return RowRange(range(self.bias_words), range(self.bias_words, self.period), (Deadline(self.period, 0),))
        first, last = self.stages.start, self.stages.stop
        biases, weights = (range(starts[first], starts[last]) for starts in (self.bias_starts, self.weight_starts))
        return RowRange(biases, weights, self._deadlines)

    @property
    def _deadlines(self) -> tuple[Deadline, ...]:
        """Words that must have offsets by each cycle of a pass: at least the biases and the first word of weights.

        A pass takes a word of weights per cycle, each stage on both sides before the next stage. Waits between stages
        are ignored.
        """
        deadlines, start = [Deadline(self.bias_words + 1, 0)], 0
        for stage in self.forward.stages[self.stages.start : self.stages.stop]:
            for group in range(stage.weight_groups):
                first = stage.weights - self._weight_starts[self.stages.start] + group * stage.words
                used = start + group * (stage.cycles // stage.weight_groups)
                # a group's first word is the most urgent, but its last word if words are made more slowly than used
                for word in (0, stage.words - 1):
                    deadlines.append(Deadline(self.bias_words + (first + word + 1) * self.cycles, used + word))
            start += 2 * stage.cycles
        return tuple(deadlines)

    @property
    def _most_groups(self) -> int:
        return self.forward.lanes // self.cycles

    @property
    def _bias_groups(self) -> tuple[BiasGroups, ...]:
        rows = []
        for stage in self.forward.stages:
            for first in range(0, stage.groups, self._most_groups):
                rows.append(BiasGroups(stage.biases + first, min(self._most_groups, stage.groups - first)))
        return tuple(rows)

    @cached_property
    def bias_starts(self) -> tuple[int, ...]:
        """Row of the first biases of each stage, and of the first weights."""
        return self._bias_starts(self.cycles)

    @cached_property
    def weight_starts(self) -> tuple[int, ...]:
        """Row of the first weights of each stage, and the number of all rows."""
        return tuple(self.bias_starts[-1] + self.cycles * start for start in self._weight_starts)

    def _bias_starts(self, cycles: int) -> tuple[int, ...]:
        words = (-(-stage.groups * cycles // self.forward.lanes) for stage in self.forward.stages)
        return tuple(accumulate(words, initial=0))

    @property
    def _weight_starts(self) -> tuple[int, ...]:
        return *(stage.weights for stage in self.forward.stages), self.forward.weight_words

    def _rows(self, cycles: int) -> int:
        return self._bias_starts(cycles)[-1] + self.forward.weight_words * cycles

    @cached_property
    def positions(self) -> tuple[tuple[Integers, Integers], ...]:
        """Flat index in the words of each stage's weights, in `Stage.weight_shape`, and biases."""
        starts, size = self.bias_starts, self.forward.lanes * self.forward.columns
        weights_first = self.bias_words * self.width - self._weight_starts[self.stages.start] * size
        positions = []
        for number in self.stages:
            stage = self.forward.network_stages[number]
            weights = weights_first + weight_positions(self.forward, number).reshape(stage.weight_shape)
            biases = (starts[number] - starts[self.stages.start]) * self.width + np.arange(stage.biases)
            positions.append((weights, biases))
        return tuple(positions)

    def flatten(self, parameters: Sequence[StageIntegers]) -> Integers:
        """Parameters of the stages in words, (words, width), zero-padded.

        Raises `UserError` if the parameters do not have the stages' shapes.
        """
        flat = np.zeros(self.words * self.width, np.int64)
        for (weights, biases), stage in zip(self.positions, parameters, strict=True):
            if stage.weight.shape != weights.shape or stage.bias.shape != biases.shape:
                raise UserError(f"weights {stage.weight.shape}, {stage.bias.shape} do not fit {weights.shape}")
            flat[weights], flat[biases] = stage.weight, stage.bias
        return flat.reshape(self.words, self.width)

    def split(self, words: Integers) -> tuple[StageIntegers, ...]:
        """Parameters of each stage from words: the inverse of `flatten`."""
        flat = words.reshape(-1)
        return tuple(StageIntegers(flat[weights], flat[biases]) for weights, biases in self.positions)
