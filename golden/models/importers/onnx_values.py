"""Tensors of an ONNX graph that depend on the sample, as views of what a layer gives."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from ..layers import Pair, Shape, Sides

UNPADDED: Sides = (0, 0, 0, 0)
FIRST, LAST = (2, 0, 1), (1, 2, 0)
"""Axes of (height, width, channels) that put the channels first, and those of (channels, height, width) back again."""


class Value(NamedTuple):
    """Tensor that depends on the sample: outputs of a layer in another shape and order, and what is left to do to them.

    Identities, reshapes and transpositions only change the view. What reads a value states there which views it takes:
    `OnnxGraph.read`, `OnnxGraph.map` and `OnnxGraph.vector`.

    Parameters
    ----------
    layer : int
        Layer that gives it, -1 for the sample.
    base : tuple of int
        Shape of the layer's outputs: (channels, height, width) or (features,).
    shape : tuple of int
        Shape of a sample's part of the tensor in the file.
    axes : tuple of int
        Order of the base's axes in the tensor, slowest first; ascending where all values are in the layer's order.
    padding : tuple of int
        Zeros around it, for the convolution that reads it.
    left_to_host : str
        What is left to the host behind the layer: ``softmax``.
    """

    layer: int
    base: Shape
    shape: Shape
    axes: tuple[int, ...]
    padding: Sides = UNPADDED
    left_to_host: str = ""

    @classmethod
    def of(cls, layer: int, base: Shape, shape: Shape | None = None) -> Value:
        """Value in the order of its layer, in its shape or another one."""
        return cls(layer, base, base if shape is None else shape, tuple(range(len(base))))

    @property
    def ordered(self) -> bool:
        """Whether its values are in the order of the layer's outputs."""
        return self.axes == tuple(range(len(self.base)))

    @property
    def sizes(self) -> Shape:
        """Sizes of the base's axes in their order in the tensor."""
        return tuple(self.base[axis] for axis in self.axes)

    @property
    def back(self) -> tuple[int, ...]:
        """Place in the tensor of each axis of the base."""
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))

    @property
    def padded(self) -> Pair:
        """Height and width with the zeros around it."""
        top, bottom, left, right = self.padding
        return self.base[1] + top + bottom, self.base[2] + left + right

    @property
    def channels_at(self) -> int | None:
        """Axis of the tensor, without the batch's, that is the channels of the base; None if there is no such."""
        if self.ordered:
            return 0 if self.shape[0] == self.base[0] else None
        wide = [at for at, size in enumerate(self.shape) if size > 1]
        axes = [axis for axis in self.axes if self.base[axis] > 1]
        same = [self.shape[at] for at in wide] == [self.base[axis] for axis in axes]
        return wide[axes.index(0)] if same and 0 in axes else None

    def reshaped(self, shape: Shape) -> Value:
        """Tensor of the same values in another shape."""
        assert prod(shape) == prod(self.base), "a reshape keeps all values"
        return self._replace(shape=shape)

    def turned(self, order: tuple[int, ...]) -> Value | None:
        """Tensor with its axes, without the batch's, in another order; None if they are not axes of the base."""
        axes = [axis for axis in self.axes if self.base[axis] > 1]
        wide = [at for at, size in enumerate(self.shape) if size > 1]
        if [self.base[axis] for axis in axes] != [self.shape[at] for at in wide]:
            return None
        moved = [axes[wide.index(at)] for at in order if at in wide]
        return self._replace(shape=tuple(self.shape[at] for at in order), axes=order_of(moved, self.base))


def order_of(axes: Iterable[int], base: Shape) -> tuple[int, ...]:
    """Order of a base's axes where those of one value are last: wherever they are, the values are in the same order."""
    wide = [axis for axis in axes if base[axis] > 1]
    single = [axis for axis, size in enumerate(base) if size == 1]
    return tuple(wide + single) if wide != sorted(wide) else tuple(range(len(base)))


def with_height(shape: Shape) -> Shape:
    """Shape of a sample in descriptions: a signal (channels, length) is a map (channels, 1, length)."""
    return (shape[0], 1, shape[1]) if len(shape) == 2 else shape
