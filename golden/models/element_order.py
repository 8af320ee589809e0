"""Permutation between a tensor of a user's model and the description's tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layers import Shape


@dataclass(frozen=True)
class ElementOrder:
    """Permutation of axes from a user's weight or sample to the description's, and back.

    Parameters
    ----------
    given : tuple of int
        Shape of the user's tensor.
    sizes : tuple of int
        The same elements split into the axes to permute.
    axes : tuple of int
        Order of these axes in the description.
    shape : tuple of int
        Shape of the description's tensor.
    """

    given: Shape
    sizes: Shape
    axes: tuple[int, ...]
    shape: Shape

    @classmethod
    def parse(cls, described: Mapping[str, Any]) -> ElementOrder:
        """Order from its fields in JSON."""
        return cls(**{name: tuple(values) for name, values in described.items()})

    @classmethod
    def reshaped(cls, given: Shape, shape: Shape) -> ElementOrder:
        """Order that changes the shape only."""
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
        """User's tensor in the description's order."""
        return _plain(values.reshape(self.sizes).transpose(self.axes).reshape(self.shape))

    def returned(self, values: NDArray[Any]) -> NDArray[Any]:
        """Description's tensor in the user's order."""
        return _plain(values.reshape(self.turned).transpose(self.back).reshape(self.given))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Copy with C strides: PyTorch's convolutions give garbage for other strides of axes of size 1."""
    return np.array(values, order="C")
