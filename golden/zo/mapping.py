"""Order of a network's parameters in a perturbation: a cycle of the generator for each word of the array's memories.

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


@dataclass(frozen=True)
class PerturbationMapping:
    """Words of a perturbation of a network's parameters.

    Parameters
    ----------
    forward : Mapping
        Network on the array.
    """

    forward: Mapping

    @property
    def width(self) -> int:
        """Parameters of a word: one for each multiplier."""
        return self.forward.lanes * self.forward.columns

    @property
    def bias_words(self) -> int:
        """Words of the biases: those of `lanes` groups of output channels stand side by side."""
        return -(-self.forward.groups // self.forward.lanes)

    @property
    def words(self) -> int:
        """Words of a perturbation, and so cycles of the generator."""
        return self.bias_words + self.forward.weight_words

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

        The pass takes a weight word a cycle; its waits between stages are not counted. At least the biases and the
        first weight word.
        """
        lead, start = 1, 0
        for stage in self.forward.stages:
            for group in range(stage.groups):
                first = stage.weights + group * stage.words
                used = start + group * (stage.cycles // stage.groups)
                # within a group words and cycles go side by side: its last word is the one that must be there first
                lead = max(lead, first + stage.words - (used + stage.words - 1) // cycles)
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
