"""Order of a tensor's elements in a user's model, where a description has another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layers import Shape


@dataclass(frozen=True)
class ElementOrder:
    """Way from a user's tensor, a weight or a sample, to a description's, and back: axes that are permuted.

    Parameters
    ----------
    given : tuple of int
        Shape of the user's tensor.
    sizes : tuple of int
        Axes as which its elements are seen.
    axes : tuple of int
        Order of these axes in the description's tensor.
    shape : tuple of int
        Shape of the description's tensor.
    """

    given: Shape
    sizes: Shape
    axes: tuple[int, ...]
    shape: Shape

    @classmethod
    def parse(cls, described: Mapping[str, Any]) -> ElementOrder:
        """Make it from its fields, as JSON has them."""
        return cls(**{name: tuple(values) for name, values in described.items()})

    @classmethod
    def reshaped(cls, given: Shape, shape: Shape) -> ElementOrder:
        """Make that of the same elements in another shape."""
        return cls(given, shape, tuple(range(len(shape))), shape)

    @property
    def turned(self) -> Shape:
        """Sizes of the axes in the description's order."""
        return tuple(self.sizes[axis] for axis in self.axes)

    @property
    def back(self) -> tuple[int, ...]:
        """Order of the description's axes in the user's tensor."""
        return tuple(map(int, np.argsort(self.axes)))

    def taken(self, values: NDArray[Any]) -> NDArray[Any]:
        """Turn the user's tensor into the description's."""
        return _plain(values.reshape(self.sizes).transpose(self.axes).reshape(self.shape))

    def returned(self, values: NDArray[Any]) -> NDArray[Any]:
        """Turn the description's tensor into the user's."""
        return _plain(values.reshape(self.turned).transpose(self.back).reshape(self.given))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Copy with the usual strides: PyTorch's convolutions give garbage for those that axes of one value can have."""
    return np.array(values, order="C")
