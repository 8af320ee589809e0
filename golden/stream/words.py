"""Words of a transformer's parameters in order of use; a word's perturbation takes a cycle of the generator.

A word is a tile of the array, or the sensitive weights dequantised in a cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import UserError
from ..fixed import Integers

TensorName = tuple[int, str]
"""Number of an operation and kind of its tensor."""


@dataclass(frozen=True)
class TensorWords:
    """Order of the tuned tensors' parameters.

    A word of a matrix is a tile: weights of `lanes` inputs to `columns` outputs. Tiles of a group of outputs are
    neighbours. Weight (lane, column) is parameter ``columns * lane + column`` of its word. A word of a vector has
    ``lanes * columns`` values, a word of sensitive weights `sensitive_word`. The last words of a tensor are padded.
    Raises `UserError` if `shapes` is empty.

    Parameters
    ----------
    shapes : mapping of (int, str) to tuple of int
        Shapes of the tensors, in order of use.
    lanes, columns : int
        Inputs and outputs of a tile.
    sensitive : set of (int, str)
        Partly tuned tensors; their shape is the number of sensitive weights.
    """

    shapes: Mapping[TensorName, tuple[int, ...]]
    lanes: int = 32
    columns: int = 16
    sensitive: Set[TensorName] = frozenset()

    def __post_init__(self) -> None:
        if not self.shapes:
            raise UserError("no tensor is tuned: a perturbation has no words")

    @cached_property
    def widths(self) -> dict[TensorName, int]:
        tile, sensitive = self.lanes * self.columns, sensitive_word(self.columns)
        return {name: sensitive if name in self.sensitive else tile for name in self.shapes}

    @property
    def width(self) -> int:
        return max(self.widths.values())

    @cached_property
    def places(self) -> dict[TensorName, range]:
        numbers, first = {}, 0
        for name, shape in self.shapes.items():
            count = -(-shape[0] // self.widths[name])
            if len(shape) == 2:
                count = -(-shape[0] // self.columns) * -(-shape[1] // self.lanes)
            numbers[name] = range(first, first + count)
            first += count
        return numbers

    @cached_property
    def words(self) -> int:
        return max(place.stop for place in self.places.values())

    def gathered(self, name: TensorName, numbers: Integers) -> Integers:
        """Tensor from the numbers of its words, (words, n): parameter j of a word takes number ``j mod n``."""
        tensor: Integers = numbers.reshape(-1)[self._index(self.shapes[name], self.widths[name], numbers.shape[1])]
        return tensor

    def _index(self, shape: tuple[int, ...], width: int, n: int) -> Integers:
        """Index of each parameter in the flat numbers of its tensor's words, cached by shape, width and n."""
        if (shape, width, n) not in self._indices:
            places = tile_places(shape, self.lanes, self.columns)
            self._indices[shape, width, n] = places // width * n + places % width % n
        return self._indices[shape, width, n]

    @cached_property
    def _indices(self) -> dict[tuple[tuple[int, ...], int, int], Integers]:
        return {}

    def split(self, words: Integers) -> dict[TensorName, Integers]:
        """Tensors from words, (words, width)."""
        return {name: self.gathered(name, words[place.start : place.stop]) for name, place in self.places.items()}

    def flatten(self, tensors: Mapping[TensorName, Integers]) -> Integers:
        """Words of tensors, (words, width), zero-padded: the inverse of `split`."""
        array = np.zeros((self.words, self.width), np.int64)
        for name, place in self.places.items():
            word, parameter = np.divmod(tile_places(self.shapes[name], self.lanes, self.columns), self.widths[name])
            array[place.start + word, parameter] = tensors[name]
        return array


def sensitive_word(columns: int) -> int:
    """Values of a word of sensitive weights: two lanes of a tile, as many as are dequantised in a cycle.

    A tile's word would be much wider than the generator's numbers of a cycle: few weights would share even fewer
    numbers.
    """
    return 2 * columns


def tile_places(shape: tuple[int, ...], lanes: int, columns: int) -> Integers:
    """Index of each value of a tensor in its word stream; padding has no value."""
    if len(shape) == 1:
        return np.arange(shape[0])
    output, inputs = np.arange(shape[0])[:, None], np.arange(shape[1])
    word = output // columns * -(-shape[1] // lanes) + inputs // lanes
    places: Integers = word * lanes * columns + inputs % lanes * columns + output % columns
    return places
