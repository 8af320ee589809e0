"""Order of a network's parameters in a perturbation: a cycle of the generator for each word of the array's memories.

Where there are few words, several cycles for each.

The words of the biases come first, because the first stage needs them with its first outputs; those of the weights
follow as they stand in the weight memory. Parameter j of a word takes number ``j mod n`` of its cycle in every
perturbation, so that a word has only n different sums of updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from ..errors import UserError
from ..fixed import Integers
from ..nn.forward import StageIntegers
from ..nn.images import weight_positions
from ..nn.mapping import Mapping

ROWS = 512
"""Rows of a block RAM at its widest: deltas of so many words take no more of them than those of one."""
WIDEST = 64
"""Most parameters of a word, where its deltas' memory has rows for more words: with 31 numbers about two share one."""


@dataclass(frozen=True)
class PerturbationMapping:
    """Words of a perturbation of a network's parameters.

    Parameters
    ----------
    forward : Mapping
        Network on the array.
    """

    forward: Mapping

    @cached_property
    def cycles(self) -> int:
        """Cycles of the generator for each word of the array's memories, 1, 2 or 4.

        Several where the words are so few that their deltas leave most of a block RAM empty: a perturbation's word is
        then a part of the array's, and fewer parameters share a number.
        """
        cycles, largest = 1, self.forward.lanes * self.forward.columns
        while largest > WIDEST * cycles and self._words(2 * cycles) <= ROWS:
            cycles *= 2
        return cycles

    @property
    def width(self) -> int:
        """Parameters of a word: one for each multiplier, or for a part of them, see `cycles`."""
        return self.forward.lanes * self.forward.columns // self.cycles

    @property
    def bias_groups(self) -> int:
        """Groups of output channels whose biases stand side by side in a word."""
        return self.forward.lanes // self.cycles

    @property
    def bias_words(self) -> int:
        """Words of the biases."""
        return -(-self.forward.groups // self.bias_groups)

    @property
    def words(self) -> int:
        """Words of a perturbation, and so cycles of the generator."""
        return self._words(self.cycles)

    def _words(self, cycles: int) -> int:
        return -(-self.forward.groups * cycles // self.forward.lanes) + self.forward.weight_words * cycles

    def span(self, period: int) -> int:
        """Positions from one perturbation to the next: at least `words`, and coprime to the generator's period.

        Then all positions of the sequence are taken before the first one returns.
        """
        span = self.words
        while gcd(span, period) > 1:
            span += 1
        return span

    def lead(self, cycles: int) -> int:
        """Words whose offsets must be there when a pass begins, where each takes so many cycles to make.

        The pass takes a word of the array's weights a cycle; its waits between stages are not counted. At least the
        biases and the first of the array's words.
        """
        lead, start = 1, 0
        for stage in self.forward.stages:
            for group in range(stage.groups):
                first = stage.weights + group * stage.words
                used = start + group * (stage.cycles // stage.groups)
                # the first word of a group is the most urgent, or the last where words are made more slowly than used
                for word in (0, stage.words - 1):
                    lead = max(lead, (first + word + 1) * self.cycles - (used + word) // cycles)
            start += stage.cycles
        return self.bias_words + lead

    @cached_property
    def positions(self) -> tuple[tuple[Integers, Integers], ...]:
        """Index of each stage's weights, in `Stage.weight_shape`, and biases in the flattened words."""
        found, first = [], self.bias_words * self.width
        for at, (stage, own) in enumerate(zip(self.forward.network_stages, self.forward.stages, strict=True)):
            weights = first + weight_positions(self.forward, at).reshape(stage.weight_shape)
            found.append((weights, own.biases * self.forward.columns + np.arange(stage.biases)))
        return tuple(found)

    def flatten(self, parameters: Sequence[StageIntegers]) -> Integers:
        """Arrange parameters in words: (words, width), 0 where there is no parameter.

        Raises
        ------
        UserError
            If they do not have the shapes of the stages.
        """
        flat = np.zeros(self.words * self.width, np.int64)
        for (weights, biases), own in zip(self.positions, parameters, strict=True):
            if own.weight.shape != weights.shape or own.bias.shape != biases.shape:
                raise UserError(f"weights {own.weight.shape}, {own.bias.shape} do not fit {weights.shape}")
            flat[weights], flat[biases] = own.weight, own.bias
        return flat.reshape(self.words, self.width)

    def split(self, words: Integers) -> tuple[StageIntegers, ...]:
        """Parameters of each stage, from words as `flatten` arranges them."""
        flat = words.reshape(-1)
        return tuple(StageIntegers(flat[weights], flat[biases]) for weights, biases in self.positions)
