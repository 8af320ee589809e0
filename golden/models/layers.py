"""Layers of a network's description, with their text form and ONNX node."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from .activations import ACTIVATIONS, Nonlinearity, OnnxWriter

Shape = tuple[int, ...]
"""Shape of one sample: (channels, height, width) or (features,)."""
Pair = tuple[int, int]
"""Height and width, or their strides."""
Sides = tuple[int, int, int, int]
"""Rows or columns on each side: top, bottom, left, right."""


class _Layer(ABC):
    """Layer with a word in a network's text; `words` are examples for messages."""

    words: ClassVar[str]

    @property
    @abstractmethod
    def word(self) -> str:
        """Text form, as `parsed` reads it."""

    @classmethod
    @abstractmethod
    def parsed(cls, word: str) -> Self | None:
        """Layer of a word; None for another kind of layer."""


class _Unweighted(_Layer):
    """Layer with a single ONNX node and no parameters."""

    @abstractmethod
    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        """Write the node of layer `number`; return the name of its output."""


@dataclass(frozen=True, init=False)
class Convolution(_Layer):
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
        Groups of adjacent channels without connections between them; divides inputs and outputs.
    """

    words = "conv6k5p2s1g2 (channels, kernel, padding, stride, groups)"

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

    @property
    def word(self) -> str:
        groups = f"g{self.groups}" if self.groups != 1 else ""
        return f"conv{self.channels}k{_window(self.kernel, self.padding, self.stride, 1)}{groups}"

    @classmethod
    def parsed(cls, word: str) -> Self | None:
        found = re.fullmatch(rf"conv(\d+)k{_WINDOW}(?:g(\d+))?", word)
        return cls(int(found[1]), *_window_of(found, 2, 1), int(found[5] or "1")) if found else None


@dataclass(frozen=True, init=False)
class Depthwise(_Layer):
    """Depthwise convolution with bias: one filter per channel; for a vector, a factor and a bias per feature.

    A batch norm that cannot be folded becomes a depthwise convolution of 1 x 1.

    Parameters
    ----------
    kernel : int or (height, width)
    padding : int or (top, bottom, left, right)
        Zeros on each side.
    stride : int or (rows, columns)
    """

    words = "dw3p1 (depthwise)"

    kernel: Pair
    padding: Sides
    stride: Pair

    def __init__(self, kernel: int | Pair, padding: int | Sides = 0, stride: int | Pair = 1) -> None:
        object.__setattr__(self, "kernel", _pair(kernel))
        object.__setattr__(self, "padding", _sides(padding))
        object.__setattr__(self, "stride", _pair(stride))

    @property
    def word(self) -> str:
        return f"dw{_window(self.kernel, self.padding, self.stride, 1)}"

    @classmethod
    def parsed(cls, word: str) -> Self | None:
        found = re.fullmatch(f"dw{_WINDOW}", word)
        return cls(*_window_of(found, 1, 1)) if found else None


@dataclass(frozen=True)
class Linear(_Layer):
    """Fully connected layer with bias."""

    words = "fc10"

    features: int

    @property
    def word(self) -> str:
        return f"fc{self.features}"

    @classmethod
    def parsed(cls, word: str) -> Self | None:
        found = re.fullmatch(r"fc(\d+)", word)
        return cls(int(found[1])) if found else None


class _Plain(_Layer):
    """Layer without numbers."""

    word = ""

    @classmethod
    def parsed(cls, word: str) -> Self | None:
        return cls() if word == cls.word else None


@dataclass(frozen=True)
class BatchNorm(_Plain):
    """Batch norm, to be folded into the layer with weights directly before it."""

    word = words = "norm"


@dataclass(frozen=True, init=False)
class MaxPool(_Unweighted):
    """Max-pool; incomplete windows are dropped.

    Parameters
    ----------
    size : int or (height, width)
    stride : int or (rows, columns), optional
        At most the size, which is the default; with a smaller stride windows overlap.
    padding : int or (top, bottom, left, right)
        Rows and columns by which windows extend beyond the map, less than the size; they are ignored.
    """

    words = "pool2, pool3p1s2"

    size: Pair
    stride: Pair
    padding: Sides

    def __init__(self, size: int | Pair, stride: int | Pair | None = None, padding: int | Sides = 0) -> None:
        object.__setattr__(self, "size", _pair(size))
        object.__setattr__(self, "stride", _pair(size if stride is None else stride))
        object.__setattr__(self, "padding", _sides(padding))

    @property
    def word(self) -> str:
        return f"pool{_window(self.size, self.padding, self.stride, self.size)}"

    @classmethod
    def parsed(cls, word: str) -> Self | None:
        found = re.fullmatch(f"pool{_WINDOW}", word)
        if found is None:
            return None
        size, padding, stride = _window_of(found, 1, found[1])
        return cls(size, stride, padding)

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        window = {"kernel_shape": self.size, "strides": self.stride, "pads": onnx_pads(self.padding)}
        return writer.node("MaxPool", sources, f"layer_{number}", **window)


@dataclass(frozen=True, init=False)
class AveragePool(_Unweighted):
    """Average pool with the size as stride; incomplete windows are dropped.

    Parameters
    ----------
    size : int or (height, width)
        The map's size for a global average.
    """

    words = "avg2"

    size: Pair

    def __init__(self, size: int | Pair) -> None:
        object.__setattr__(self, "size", _pair(size))

    @property
    def stride(self) -> Pair:
        """The size."""
        return self.size

    @property
    def padding(self) -> Sides:
        """No padding."""
        return 0, 0, 0, 0

    @property
    def word(self) -> str:
        return f"avg{_sized(self.size)}"

    @classmethod
    def parsed(cls, word: str) -> Self | None:
        found = re.fullmatch(f"avg{_PAIR}", word)
        return cls(_pair_of(found[1])) if found else None

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        return writer.node("AveragePool", sources, f"layer_{number}", kernel_shape=self.size, strides=self.size)


@dataclass(frozen=True)
class Flatten(_Plain, _Unweighted):
    """Flatten (channels, height, width) to one vector, channels slowest."""

    word = words = "flatten"

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        return writer.node("Flatten", sources, f"layer_{number}", axis=1)


@dataclass(frozen=True)
class Add(_Plain, _Unweighted):
    """Sum of two tensors of equal shape, as of a residual connection."""

    word = "add"
    words = "add@4,1 (layers it reads)"

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        return writer.node("Add", sources, f"layer_{number}")


@dataclass(frozen=True)
class Concat(_Plain, _Unweighted):
    """Concatenation along channels, or of vectors along features."""

    word = "cat"
    words = "cat@4,1 (concatenation)"

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        return writer.node("Concat", sources, f"layer_{number}", axis=1)


Weighted = Convolution | Depthwise | Linear
"""Layers with weights; each begins a stage."""
Pool = MaxPool | AveragePool
Layer = Weighted | BatchNorm | Nonlinearity | Pool | Flatten | Add | Concat
LAYERS: tuple[type[Layer], ...] = (
    Convolution,
    Depthwise,
    *ACTIVATIONS,
    MaxPool,
    AveragePool,
    Add,
    Concat,
    Flatten,
    Linear,
    BatchNorm,
)


def by(sizes: tuple[int, ...]) -> str:
    """Sizes as text: ``3 x 5``."""
    return " x ".join(map(str, sizes))


def _pair(value: int | Pair) -> Pair:
    return (value, value) if isinstance(value, int) else value


def _sides(value: int | Sides) -> Sides:
    return (value,) * 4 if isinstance(value, int) else value


def onnx_pads(padding: Sides) -> list[int]:
    """Sides in the order of ONNX."""
    top, bottom, left, right = padding
    return [top, left, bottom, right]


_PAIR = r"(\d+(?:x\d+)?)"
_WINDOW = rf"{_PAIR}(?:p(\d+(?:,\d+,\d+,\d+)?))?(?:s{_PAIR})?"


def _sized(pair: Pair) -> str:
    return str(pair[0]) if pair[0] == pair[1] else "x".join(map(str, pair))


def _window(size: Pair, padding: Sides, stride: Pair, default: int | Pair) -> str:
    """Text of a window; a padding of 0 and the default stride are omitted."""
    sides = str(padding[0]) if len(set(padding)) == 1 else ",".join(map(str, padding))
    step = "" if stride == _pair(default) else f"s{_sized(stride)}"
    return _sized(size) + (f"p{sides}" if any(padding) else "") + step


def _pair_of(text: str) -> Pair:
    height, _, width = text.partition("x")
    return int(height), int(width or height)


def _window_of(found: re.Match[str], at: int, default: object) -> tuple[Pair, int | Sides, Pair]:
    """Size, padding and stride from the groups of `_WINDOW`, starting at group `at`."""
    sides = [int(side) for side in (found[at + 1] or "0").split(",")]
    padding = sides[0] if len(sides) == 1 else (sides[0], sides[1], sides[2], sides[3])
    return _pair_of(found[at]), padding, _pair_of(found[at + 2] or str(default))
