"""Perturbations for PyTorch's tensors behind one interface; here those whose numbers are independent.

All parameters of a model, flattened one after the other, are one vector. A perturbation of it is named by the
position at which it starts, and any part of it is added in place, in any pieces, without what comes before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import UserError


class Perturbations(ABC):
    """What an optimiser draws directions from.

    Its ``repr`` says all that its numbers depend on: two sources with the same one give the same numbers.
    """

    @abstractmethod
    def span(self, weights: int) -> int:
        """Positions that a perturbation of so many weights takes; the next one starts so far behind it."""

    @abstractmethod
    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of a part of a perturbation, in place and without a temporary of its size.

        Parameters
        ----------
        flat : Tensor (weights,)
            Contiguous, on any device.
        position : int
            Where the perturbation starts, at least 0.
        offset : int
            Which of its numbers meets ``flat[0]``.
        coefficient : float
        """

    def draw(
        self,
        position: int,
        weights: int,
        offset: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """A perturbation's numbers from an offset on: (weights,).

        Raises
        ------
        UserError
            For a negative position, offset or length.
        """
        if min(position, weights, offset) < 0:
            raise UserError(f"no perturbation of {weights} weights from {offset} on at position {position}")
        flat = torch.zeros(weights, dtype=dtype, device=device)
        self.add_(flat, position, offset, 1)
        return flat


@dataclass(frozen=True, repr=False)
class CachedPerturbations(Perturbations):
    """The numbers of another source, of which the last perturbation stays in memory.

    A step adds one perturbation four times. Where drawing is what takes the time, as with Gaussian numbers, this makes
    it nearly four times as fast, for as much memory as the weights take.

    Parameters
    ----------
    source : Perturbations
    """

    source: Perturbations

    def __repr__(self) -> str:
        return repr(self.source)

    def span(self, weights: int) -> int:
        """The source's."""
        return self.source.span(weights)

    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of a part of a perturbation; it is drawn if it was not the last one."""
        if self._last.get("position") != position:
            self._last.clear()
            self._last["position"] = position
        part = (offset, len(flat), flat.dtype, flat.device)
        if part not in self._last:
            self._last[part] = self.source.draw(position, len(flat), offset, flat.dtype, flat.device)
        flat.add_(self._last[part], alpha=coefficient)

    @cached_property
    def _last(self) -> dict[Any, Any]:
        return {}


@dataclass(frozen=True)
class Independent(Perturbations):
    """An endless sequence of independent numbers, drawn block by block by PyTorch's generator for the device.

    A position counts blocks. Each block has a seed of its own, the hash of `seed` plus the block's number, and is drawn
    whole whatever part of it is asked for: the numbers do not depend on where a perturbation is cut. They do depend
    on the *kind* of device, as everything that PyTorch draws, and on its version. On the CPU PyTorch's generator
    knows 2**32 seeds: no block returns within 2**48 numbers.

    Parameters
    ----------
    seed : int
        At least 0.
    block : int
        Numbers in a block.
    """

    seed: int = 0
    block: int = 1 << 16

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UserError(f"seed = {self.seed} is negative")
        if not 16 <= self.block <= 1 << 24:
            raise UserError(f"block = {self.block} numbers is not in 16 to {1 << 24}")

    @cached_property
    def _key(self) -> int:
        return int(np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0])

    @abstractmethod
    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        """Draw a block of float32 numbers."""

    def span(self, weights: int) -> int:
        """Whole blocks."""
        return -(-weights // self.block)

    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of a part of a perturbation; a number is float32 before it is converted to `flat`'s type."""
        if not flat.is_floating_point():
            raise UserError(f"{type(self).__name__} numbers are floats and cannot be added to {flat.dtype}")
        generator = torch.Generator(flat.device)
        block = torch.empty(self.block, device=flat.device)
        done = 0
        while done < len(flat):
            number, first = divmod(offset + done, self.block)
            generator.manual_seed((self._key + position + number) % (1 << 64))
            self._fill(block, generator)
            part = block[first : first + len(flat) - done]
            flat[done : done + len(part)].add_(part.to(flat.dtype), alpha=coefficient)
            done += len(part)


@dataclass(frozen=True)
class Gaussian(Independent):
    """Standard Gaussian numbers, as MeZO draws them."""

    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        block.normal_(generator=generator)


@dataclass(frozen=True)
class Rademacher(Independent):
    """Plus or minus one, either with probability one half."""

    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        block.random_(0, 2, generator=generator).mul_(2).sub_(1)


@dataclass(frozen=True)
class Uniform(Independent):
    """Uniform numbers that nobody scaled to a Gaussian's modulus (PeZO, table 3).

    In [-1, 1) a perturbation is sqrt(3) times shorter than a Gaussian one: with the same settings steps are three times
    shorter, and training is slower. As the integers of a generator with b bits, `half_width` = 2**(b - 1), it is so
    long that training collapses.

    Parameters
    ----------
    half_width : float
        Numbers are in [-half_width, half_width).
    """

    half_width: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.half_width) and self.half_width > 0):
            raise UserError(f"half_width = {self.half_width} is not above 0")

    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        block.uniform_(-self.half_width, self.half_width, generator=generator)
