"""Sources of perturbations for PyTorch tensors: the interface, and sources of independent numbers.

All parameters of a model, flattened and concatenated, are one vector. The start position names a perturbation of the
vector. Any part of a perturbation can be added in place, in pieces of any length, without computing the numbers before.
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
    """Source of perturbations for an optimiser.

    The ``repr`` contains everything on which the numbers depend: sources with equal ``repr`` give equal numbers.
    """

    @abstractmethod
    def span(self, weights: int) -> int:
        """Positions that a perturbation of `weights` numbers takes, and so the distance to the next perturbation."""

    @abstractmethod
    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of a part of a perturbation, in place, without a temporary of the perturbation's size.

        `flat` (weights,) is contiguous, on any device. The number at index `offset` of the perturbation at `position`
        (0 or more) is added to ``flat[0]``.
        """

    def draw(
        self,
        position: int,
        weights: int,
        offset: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Numbers of a perturbation from an offset on, (weights,).

        Raises
        ------
        UserError
            If position, offset or length is negative.
        """
        if min(position, weights, offset) < 0:
            raise UserError(f"no perturbation of {weights} weights from {offset} on at position {position}")
        flat = torch.zeros(weights, dtype=dtype, device=device)
        self.add_(flat, position, offset, 1)
        return flat


@dataclass(frozen=True, repr=False)
class CachedPerturbations(Perturbations):
    """Another source, with its last perturbation cached in memory.

    A step adds one perturbation four times. Where drawing takes most of the time, as with Gaussian numbers, the cache
    makes a step nearly four times as fast; it needs as much memory as the weights.
    """

    source: Perturbations

    def __repr__(self) -> str:
        return repr(self.source)

    def span(self, weights: int) -> int:
        return self.source.span(weights)

    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of a part of a perturbation, drawn unless it is cached."""
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
    """Sequence of independent numbers without a period, drawn in blocks by PyTorch's generator for the device.

    Positions count blocks. Each block has its own seed, the hash of `seed` plus the block's number, and is always drawn
    whole; the numbers do not depend on how a perturbation is cut. They depend on the *kind* of device and on PyTorch's
    version. On the CPU PyTorch's generator has 2**32 seeds: no block repeats within 2**48 numbers.

    Parameters
    ----------
    seed : int
        At least 0.
    block : int
        Numbers per block, 16 to 2**24.
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
        """Whole blocks for a number of weights."""
        return -(-weights // self.block)

    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of a part of a perturbation to a float tensor; float32 numbers are converted to its type."""
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
    """Standard Gaussian numbers, as in MeZO."""

    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        block.normal_(generator=generator)


@dataclass(frozen=True)
class Rademacher(Independent):
    """Plus or minus 1 with equal probability."""

    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        block.random_(0, 2, generator=generator).mul_(2).sub_(1)


@dataclass(frozen=True)
class Uniform(Independent):
    """Uniform numbers in [-half_width, half_width), without scaling to a Gaussian's modulus (PeZO, table 3).

    In [-1, 1) a perturbation is sqrt(3) times shorter than a Gaussian perturbation: with equal settings, steps are
    three times shorter and training is slower. With the integers of a b-bit generator, `half_width` = 2**(b - 1),
    perturbations are so long that training collapses.
    """

    half_width: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.half_width) and self.half_width > 0):
            raise UserError(f"half_width = {self.half_width} is not above 0")

    def _fill(self, block: Tensor, generator: torch.Generator) -> None:
        block.uniform_(-self.half_width, self.half_width, generator=generator)
