"""Words of a transformer's parameters: a perturbation's cycle each, in the order of their use.

They are tiles of the array, and of sensitive weights what the dequantisers take in a cycle.
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
    """Order of the parameters of some tensors.

    A word of a matrix is a tile: the weights of `lanes` inputs to `columns` outputs. Tiles of one group of outputs are
    neighbours. Weight (lane, column) is parameter ``columns * lane + column`` of its word. A word of a vector has as
    many neighbouring values, and one of sensitive weights `sensitive_word`. What a tensor lacks of its last words are
    parameters that nothing reads.

    Parameters
    ----------
    shapes : mapping of (int, str) to tuple of int
        Shapes of the tensors, in the order of their use.
    lanes, columns : int
        Size of a tile.
    sensitive : set of (int, str)
        Tensors whose shape is the number of their sensitive weights.

    Raises
    ------
    UserError
        If there is no tensor.
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
        """Parameters of a word of each tensor."""
        tile, own = self.lanes * self.columns, sensitive_word(self.columns)
        return {name: own if name in self.sensitive else tile for name in self.shapes}

    @property
    def width(self) -> int:
        """Parameters of the widest word."""
        return max(self.widths.values())

    @cached_property
    def places(self) -> dict[TensorName, range]:
        """Numbers of each tensor's words."""
        found, first = {}, 0
        for name, shape in self.shapes.items():
            count = -(-shape[0] // self.widths[name])
            if len(shape) == 2:
                count = -(-shape[0] // self.columns) * -(-shape[1] // self.lanes)
            found[name] = range(first, first + count)
            first += count
        return found

    @cached_property
    def words(self) -> int:
        """Number of words."""
        return max(place.stop for place in self.places.values())

    def gathered(self, name: TensorName, numbers: Integers) -> Integers:
        """Tensor of the numbers of its words, (words, n): parameter j of a word takes number ``j mod n``."""
        found: Integers = numbers.reshape(-1)[self._index(self.shapes[name], self.widths[name], numbers.shape[1])]
        return found

    def _index(self, shape: tuple[int, ...], width: int, n: int) -> Integers:
        """Place of each parameter among the numbers of its tensor's words; the same for all of a shape and width."""
        if (shape, width, n) not in self._indices:
            places = tile_places(shape, self.lanes, self.columns)
            self._indices[shape, width, n] = places // width * n + places % width % n
        return self._indices[shape, width, n]

    @cached_property
    def _indices(self) -> dict[tuple[tuple[int, ...], int, int], Integers]:
        return {}

    def split(self, words: Integers) -> dict[TensorName, Integers]:
        """Tensors of words, (words, width)."""
        return {name: self.gathered(name, words[place.start : place.stop]) for name, place in self.places.items()}

    def flatten(self, tensors: Mapping[TensorName, Integers]) -> Integers:
        """Words of tensors, (words, width), with zeros where there is no parameter: the inverse of `split`."""
        found = np.zeros((self.words, self.width), np.int64)
        for name, place in self.places.items():
            word, parameter = np.divmod(tile_places(self.shapes[name], self.lanes, self.columns), self.widths[name])
            found[place.start + word, parameter] = tensors[name]
        return found


def sensitive_word(columns: int) -> int:
    """Values of a word of sensitive weights: two lanes of a tile, whose codes are a beat and a cycle's dequantisers.

    A tile's word would be wider than the numbers of a generator's cycle by far. Few weights would share fewer numbers.
    """
    return 2 * columns


def tile_places(shape: tuple[int, ...], lanes: int, columns: int) -> Integers:
    """Place of each value of a tensor in the stream of its words, whose places beyond the tensor are left out."""
    if len(shape) == 1:
        return np.arange(shape[0])
    output, given = np.arange(shape[0])[:, None], np.arange(shape[1])
    word = output // columns * -(-shape[1] // lanes) + given // lanes
    places: Integers = word * lanes * columns + given % lanes * columns + output % columns
    return places
