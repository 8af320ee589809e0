"""Layers of a network's description."""

from __future__ import annotations

from dataclasses import dataclass

from .activations import Activation

Shape = tuple[int, ...]
"""Shape of one sample: (channels, height, width) or (features,)."""
Pair = tuple[int, int]
"""Height and width, or their strides."""
Sides = tuple[int, int, int, int]
"""Rows or columns on each side: top, bottom, left, right."""


@dataclass(frozen=True, init=False)
class Convolution:
    """2-D convolution with bias.

    Parameters
    ----------
    channels : int
        Output channels.
    kernel : int or (height, width)
    padding : int or (top, bottom, left, right)
        Zeros on each side.
    stride : int or (rows, columns)
    groups : int
        Groups of neighbouring channels: outputs of each read inputs of the same one. Divides inputs and outputs.
    """

    channels: int
    kernel: Pair
    padding: Sides
    stride: Pair
    groups: int

    def __init__(
        self, channels: int, kernel: int | Pair, padding: int | Sides = 0, stride: int | Pair = 1, groups: int = 1
    ) -> None:
        object.__setattr__(self, "channels", channels)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "kernel", _pair(kernel))
        object.__setattr__(self, "padding", _sides(padding))
        object.__setattr__(self, "stride", _pair(stride))


@dataclass(frozen=True, init=False)
class Depthwise:
    """Depthwise convolution with bias: one filter a channel. Of a vector, a factor and a bias for each feature.

    A batch norm that cannot be folded into the layer before it is one with a kernel of 1 x 1.

    Parameters
    ----------
    kernel : int or (height, width)
    padding : int or (top, bottom, left, right)
        Zeros on each side.
    stride : int or (rows, columns)
    """

    kernel: Pair
    padding: Sides
    stride: Pair

    def __init__(self, kernel: int | Pair, padding: int | Sides = 0, stride: int | Pair = 1) -> None:
        object.__setattr__(self, "kernel", _pair(kernel))
        object.__setattr__(self, "padding", _sides(padding))
        object.__setattr__(self, "stride", _pair(stride))


@dataclass(frozen=True)
class Linear:
    """Fully connected layer with bias."""

    features: int


@dataclass(frozen=True)
class BatchNorm:
    """Batch norm; must directly follow a layer with weights, into which it is folded."""


@dataclass(frozen=True, init=False)
class MaxPool:
    """Max-pool; rows and columns that do not fill a window are dropped.

    Parameters
    ----------
    size : int or (height, width)
    stride : int or (rows, columns), optional
        At most the size, which is the default; windows overlap where it is less.
    padding : int or (top, bottom, left, right)
        Rows and columns of windows beyond the map, which do not count; less than the size.
    """

    size: Pair
    stride: Pair
    padding: Sides

    def __init__(self, size: int | Pair, stride: int | Pair | None = None, padding: int | Sides = 0) -> None:
        object.__setattr__(self, "size", _pair(size))
        object.__setattr__(self, "stride", _pair(size if stride is None else stride))
        object.__setattr__(self, "padding", _sides(padding))


@dataclass(frozen=True, init=False)
class AveragePool:
    """Average pool with the size as stride; rows and columns that do not fill a window are dropped.

    Parameters
    ----------
    size : int or (height, width)
        That of the whole map for a global average.
    """

    size: Pair

    def __init__(self, size: int | Pair) -> None:
        object.__setattr__(self, "size", _pair(size))

    @property
    def stride(self) -> Pair:
        """Rows and columns from a window to the next: the size."""
        return self.size

    @property
    def padding(self) -> Sides:
        """Rows and columns of windows beyond the map: none."""
        return 0, 0, 0, 0


@dataclass(frozen=True)
class Flatten:
    """Flatten (channels, height, width) to one vector, channels slowest."""


@dataclass(frozen=True)
class Add:
    """Sum of two tensors of equal shape, such as that behind a residual connection."""


@dataclass(frozen=True)
class Concat:
    """Concatenation of two or more tensors along their channels, or of vectors along their features."""


Weighted = Convolution | Depthwise | Linear
"""Layers with weights, each of which begins a stage."""
Pool = MaxPool | AveragePool
Layer = Weighted | BatchNorm | Activation | Pool | Flatten | Add | Concat


def by(sizes: tuple[int, ...]) -> str:
    """Format sizes, such as a height and a width: ``3 x 5``."""
    return " x ".join(map(str, sizes))


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value


def _sides(value: int | Sides) -> Sides:
    return (value,) * 4 if isinstance(value, int) else value
