"""What an optimiser moves: a model's parameters as one vector, in floats, or in integers behind the floats."""

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
"""Weights converted at a time: what that takes stays in the cache."""


class Weights(ABC):
    """Parameters that are moved along perturbations, in place.

    Parameters
    ----------
    tensors : sequence of Tensor
        Floating-point and contiguous; flattened, one after the other, they are the vector.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.offsets = [0, *accumulate(one.numel() for one in tensors)]

    @property
    def count(self) -> int:
        """Length of the vector."""
        return self.offsets[-1]

    @property
    @abstractmethod
    def resolution(self) -> float:
        """Amounts are multiples of this; 0 where any will do."""

    @abstractmethod
    def snap(self, amount: float) -> float:
        """The nearest amount by which the vector can be moved."""

    @abstractmethod
    def add(self, position: int, amount: float, first: int = 0, last: int | None = None) -> None:
        """Add a multiple of a perturbation of the vector.

        Parameters
        ----------
        position : int
            Of the perturbation.
        amount : float
        first, last : int
            Move only these tensors, `last` excluded.
        """


class FloatWeights(Weights):
    """Parameters as PyTorch has them. A perturbation that is taken back leaves rounding errors behind."""

    def __init__(self, tensors: Sequence[Tensor], source: Perturbations) -> None:
        super().__init__(tensors)
        self.source = source

    @property
    def resolution(self) -> float:
        """Any amount will do."""
        return 0.0

    def snap(self, amount: float) -> float:
        """The amount itself."""
        return amount

    def add(self, position: int, amount: float, first: int = 0, last: int | None = None) -> None:
        """Add a multiple of a perturbation."""
        for tensor, offset in list(zip(self.tensors, self.offsets, strict=False))[first:last]:
            self.source.add_(tensor.detach().view(-1), position, offset, amount)


class IntegerWeights(Weights):
    """Parameters as 32-bit integers modulo 2**32; the model sees their values.

    What is added is an integer multiple of a perturbation's integers. Taken back, it leaves the bits that were there,
    and a sum of such steps is the same in any order, overflow or not.

    Parameters
    ----------
    tensors : sequence of Tensor
        Rounded to the format now, half to even. Whenever the integers change they are overwritten with the integers'
        values, rounded to the tensors' type.
    source : Periodic
    format : Format
        Of the integers: signed, 32 bits.

    Raises
    ------
    UserError
        If the format is another, or a weight is outside it or not a number.
    """

    def __init__(self, tensors: Sequence[Tensor], source: Periodic, format: Format) -> None:
        super().__init__(tensors)
        if format.width != 32 or not format.signed:
            raise UserError(f"format = {format}: parameters are kept in a signed format of 32 bits, such as Q4.28")
        self.source = source
        self.format = format
        self.integers = [self._rounded(one) for one in tensors]
        self.show()

    @property
    def resolution(self) -> float:
        """The amount that a coefficient of 1 stands for."""
        return 2.0 ** (self.source.fraction_bits - self.format.fraction)

    def coefficient(self, amount: float) -> int:
        """The integer nearest to an amount.

        Raises
        ------
        UserError
            If it does not fit 32 bits: every weight would go round the whole format.
        """
        scaled = amount / self.resolution
        if not abs(scaled) < 1 << 31:
            raise UserError(f"moving by {amount:g} times a perturbation overflows {self.format}: lower the rate")
        return round(scaled)

    def snap(self, amount: float) -> float:
        """A coefficient's amount."""
        return self.coefficient(amount) * self.resolution

    def add(self, position: int, amount: float, first: int = 0, last: int | None = None) -> None:
        """Add the nearest integer multiple of a perturbation."""
        coefficient = self.coefficient(amount)
        for integers, offset in list(zip(self.integers, self.offsets, strict=False))[first:last]:
            self.source.add_(integers, position, offset, coefficient)
        self.show(first, last)

    def apply(self, table: PeriodicTable) -> None:
        """Add a sum of steps, see `Periodic.accumulate`, in one pass."""
        for integers, offset in zip(self.integers, self.offsets, strict=False):
            table.add_(integers, 0, offset, 1)
        self.show()

    def load(self, integers: Sequence[Tensor]) -> None:
        """Take over integers that were saved.

        Raises
        ------
        UserError
            If they are not those of these parameters; nothing is changed then.
        """
        shapes, own = ([(one.shape, one.dtype) for one in some] for some in (integers, self.integers))
        if shapes != own:
            raise UserError("the saved integers are of other parameters than these")
        for mine, theirs in zip(self.integers, integers, strict=True):
            mine.copy_(theirs)
        self.show()

    def show(self, first: int = 0, last: int | None = None) -> None:
        """Bring the tensors up to date with the integers."""
        for integers, tensor in list(zip(self.integers, self.tensors, strict=True))[first:last]:
            values = tensor.detach().view(-1)
            # float16 ends at 65,504, where integers go on
            wide = torch.promote_types(tensor.dtype, torch.float32)
            for at in range(0, len(integers), CHUNK):
                values[at : at + CHUNK] = integers[at : at + CHUNK].to(wide).mul_(2.0**-self.format.fraction)

    def _rounded(self, tensor: Tensor) -> Tensor:
        values = tensor.detach().view(-1)
        integers = torch.empty(len(values), dtype=torch.int32, device=values.device)
        for at in range(0, len(values), CHUNK):
            exact = torch.round(values[at : at + CHUNK].double() * 2.0**self.format.fraction)
            inside = (exact >= self.format.minimum) & (exact <= self.format.maximum)
            if not inside.all():
                worst = float(values[at : at + CHUNK][~inside][0])
                raise UserError(f"a weight is {worst:g}, outside {self.format}: give a format with more integer bits")
            integers[at : at + CHUNK] = exact
        return integers
