"""Words of a transformer's parameters: tiles of the array in the order of their use, a perturbation's cycle each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ..errors import UserError
from ..fixed import Integers

TensorName = tuple[int, str]
"""Number of an operation and kind of its tensor."""


@dataclass(frozen=True)
class TensorWords:
    """Order of the parameters of some tensors.

    A word of a matrix is a tile: the weights of `lanes` inputs to `columns` outputs. Tiles of one group of outputs are
    neighbours. Weight (lane, column) is parameter ``columns * lane + column`` of its word. A word of a vector has as
    many neighbouring values. What a tensor lacks of its last tiles are parameters that nothing reads.

    Parameters
    ----------
    shapes : mapping of (int, str) to tuple of int
        Shapes of the tensors, in the order of their use.
    lanes, columns : int
        Size of a tile.

    Raises
    ------
    UserError
        If there is no tensor.
    """

    shapes: Mapping[TensorName, tuple[int, ...]]
    lanes: int = 32
    columns: int = 16

    def __post_init__(self) -> None:
        if not self.shapes:
            raise UserError("no tensor is tuned: a perturbation has no words")

    @property
    def width(self) -> int:
        """Parameters of a word."""
        return self.lanes * self.columns

    @cached_property
    def places(self) -> dict[TensorName, range]:
        """Numbers of each tensor's words."""
        found, first = {}, 0
        for name, shape in self.shapes.items():
            count = prod(self._tiles(shape))
            found[name] = range(first, first + count)
            first += count
        return found

    @cached_property
    def words(self) -> int:
        """Number of words."""
        return max(place.stop for place in self.places.values())

    def _tiles(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Groups of outputs, and tiles of each."""
        if len(shape) == 2:
            return -(-shape[0] // self.columns), -(-shape[1] // self.lanes)
        return 1, -(-prod(shape) // self.width)

    def gathered(self, name: TensorName, numbers: Integers) -> Integers:
        """Tensor of the numbers of its words, (words of the tensor, n): parameter j of a word takes number ``j mod n``."""
        found: Integers = numbers.reshape(-1)[self._index(self.shapes[name], numbers.shape[1])]
        return found

    def _index(self, shape: tuple[int, ...], n: int) -> Integers:
        """Place of each parameter among the numbers of its tensor's words; the same for all tensors of a shape."""
        if (shape, n) not in self._indices:
            places = np.arange(prod(shape)).reshape(shape)
            if len(shape) == 2:
                output, given = np.arange(shape[0])[:, None], np.arange(shape[1])
                word = output // self.columns * self._tiles(shape)[1] + given // self.lanes
                places = word * self.width + given % self.lanes * self.columns + output % self.columns
            self._indices[shape, n] = places // self.width * n + places % self.width % n
        return self._indices[shape, n]

    @cached_property
    def _indices(self) -> dict[tuple[tuple[int, ...], int], Integers]:
        return {}

    def split(self, words: Integers) -> dict[TensorName, Integers]:
        """Tensors of words, (words, width)."""
        found = {}
        for name, place in self.places.items():
            shape, own = self.shapes[name], words[place.start : place.stop]
            if len(shape) == 2:
                groups, tiles = self._tiles(shape)
                matrix = own.reshape(groups, tiles, self.lanes, self.columns).transpose(0, 3, 1, 2)
                found[name] = matrix.reshape(groups * self.columns, tiles * self.lanes)[: shape[0], : shape[1]]
            else:
                found[name] = own.reshape(-1)[: shape[0]]
        return found

    def flatten(self, tensors: Mapping[TensorName, Integers]) -> Integers:
        """Words of tensors, (words, width), with zeros where there is no parameter: the inverse of `split`."""
        found = np.zeros((self.words, self.width), np.int64)
        for name, place in self.places.items():
            shape, values = self.shapes[name], tensors[name]
            groups, tiles = self._tiles(shape)
            if len(shape) == 2:
                more = groups * self.columns - shape[0], tiles * self.lanes - shape[1]
                matrix = np.pad(values, ((0, more[0]), (0, more[1])))
                parts = matrix.reshape(groups, self.columns, tiles, self.lanes).transpose(0, 2, 3, 1)
            else:
                parts = np.pad(values, (0, tiles * self.width - shape[0]))
            found[place.start : place.stop] = parts.reshape(-1, self.width)
        return found
