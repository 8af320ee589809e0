"""Parameters of a model as one vector that moves along perturbations: floats, or integers shown as floats."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ...errors import UserError
from ...fixed import Format
from .periodic import Periodic, PeriodicTable
from .sources import Perturbations

CHUNK = 1 << 16
"""Weights converted at once; their temporaries fit the CPU's cache."""


class Weights(ABC):
    """Vector of parameters, moved along perturbations in place.

    Tensors are floating-point and contiguous; flattened and concatenated they are the vector.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.offsets = [0, *accumulate(tensor.numel() for tensor in tensors)]

    @property
    def count(self) -> int:
        return self.offsets[-1]

    @property
    @abstractmethod
    def resolution(self) -> float:
        """Smallest step of an amount; 0 if any amount is possible."""

    @abstractmethod
    def snap(self, amount: float) -> float:
        """Nearest amount by which the vector can move."""

    @abstractmethod
    def add(self, position: int, amount: float, first: int = 0, last: int | None = None) -> None:
        """Add `amount` times the perturbation at `position` to the tensors from `first` to before `last`."""


class FloatWeights(Weights):
    """Float parameters; adding and subtracting a perturbation leaves rounding errors."""

    def __init__(self, tensors: Sequence[Tensor], source: Perturbations) -> None:
        super().__init__(tensors)
        self.source = source

    @property
    def resolution(self) -> float:
        return 0.0

    def snap(self, amount: float) -> float:
        return amount

    def add(self, position: int, amount: float, first: int = 0, last: int | None = None) -> None:
        for tensor, offset in list(zip(self.tensors, self.offsets, strict=False))[first:last]:
            self.source.add_(tensor.detach().view(-1), position, offset, amount)


class IntegerWeights(Weights):
    """Parameters as 32-bit integers modulo 2**32; the model's tensors hold their values.

    Every update adds an integer multiple of a perturbation's integers. Subtracting the same multiple restores the same
    bits. A sum of updates is the same in any order, with or without overflow.

    Parameters
    ----------
    tensors : sequence of Tensor
        Rounded to the format at construction, half to even. After every change the integers' values overwrite the
        tensors, rounded to the tensors' type.
    format : Format
        Format of the integers: signed, 32 bits.

    Raises
    ------
    UserError
        If the format is not signed with 32 bits, or a weight is outside the format or NaN.
    """

    def __init__(self, tensors: Sequence[Tensor], source: Periodic, format: Format) -> None:
        super().__init__(tensors)
        if format.width != 32 or not format.signed:
            raise UserError(f"format = {format}: parameters are kept in a signed format of 32 bits, such as Q4.28")
        self.source = source
        self.format = format
        self.integers = [self._rounded(tensor) for tensor in tensors]
        self._update_tensors()

    @property
    def resolution(self) -> float:
        """Amount of a coefficient of 1."""
        return 2.0 ** (self.source.fraction_bits - self.format.fraction)

    def coefficient(self, amount: float) -> int:
        """Integer coefficient nearest to an amount.

        Raises
        ------
        UserError
            If the coefficient does not fit 32 bits.
        """
        scaled = amount / self.resolution
        if not abs(scaled) < 1 << 31:
            raise UserError(f"moving by {amount:g} times a perturbation overflows {self.format}: lower the rate")
        return round(scaled)

    def snap(self, amount: float) -> float:
        return self.coefficient(amount) * self.resolution

    def add(self, position: int, amount: float, first: int = 0, last: int | None = None) -> None:
        """Add the nearest integer multiple of a perturbation, see `Weights.add`."""
        coefficient = self.coefficient(amount)
        for integers, offset in list(zip(self.integers, self.offsets, strict=False))[first:last]:
            self.source.add_(integers, position, offset, coefficient)
        self._update_tensors(first, last)

    def apply(self, table: PeriodicTable) -> None:
        """Add a sum of steps, see `Periodic.accumulate`, in one pass."""
        for integers, offset in zip(self.integers, self.offsets, strict=False):
            table.add_(integers, 0, offset, 1)
        self._update_tensors()

    def load(self, integers: Sequence[Tensor]) -> None:
        """Restore saved integers.

        Raises
        ------
        UserError
            If shapes or types do not fit; the integers then stay unchanged.
        """
        shapes, expected = (
            [(tensor.shape, tensor.dtype) for tensor in tensors] for tensors in (integers, self.integers)
        )
        if shapes != expected:
            raise UserError("the saved integers do not fit the shapes of these parameters")
        for mine, theirs in zip(self.integers, integers, strict=True):
            mine.copy_(theirs)
        self._update_tensors()

    def _update_tensors(self, first: int = 0, last: int | None = None) -> None:
        for integers, tensor in list(zip(self.integers, self.tensors, strict=True))[first:last]:
            values = tensor.detach().view(-1)
            # at least float32: float16 overflows above 65,504
            wide = torch.promote_types(tensor.dtype, torch.float32)
            for start in range(0, len(integers), CHUNK):
                values[start : start + CHUNK] = (
                    integers[start : start + CHUNK].to(wide).mul_(2.0**-self.format.fraction)
                )

    def _rounded(self, tensor: Tensor) -> Tensor:
        values = tensor.detach().view(-1)
        integers = torch.empty(len(values), dtype=torch.int32, device=values.device)
        for start in range(0, len(values), CHUNK):
            exact = torch.round(values[start : start + CHUNK].double() * 2.0**self.format.fraction)
            inside = (exact >= self.format.minimum) & (exact <= self.format.maximum)
            if not inside.all():
                worst = float(values[start : start + CHUNK][~inside][0])
                raise UserError(f"a weight is {worst:g}, outside {self.format}: give a format with more integer bits")
            integers[start : start + CHUNK] = exact
        return integers
