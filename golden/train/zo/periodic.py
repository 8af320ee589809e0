"""PeZO's perturbations for PyTorch: the integers of `golden.rng.perturbation`, added as views of one short table.

The generators are periodic, and weight i takes lane ``i mod L`` of cycle ``i div L``. A perturbation of any length is
therefore a table, read cyclically from the row of its position. No numbers are drawn, and no temporary has the size of
a perturbation.

Sums are periodic too. With c times the perturbation of position s for every step (s, c), number j of cycle t of the sum
is::

    sum of c * base[(t + s) mod times, (j + t + s) mod n] = total[t mod times, (j + t) mod n]

(without ``t + s`` and ``t`` in the column index where the source does not rotate). `total` has the base's shape and
holds the sum of any number of steps; one pass over the weights applies it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import torch
from torch import Tensor

from ...errors import UserError, check_range
from ...fixed import Format, narrow
from ...rng.perturbation import FoldableSource, cycles_of
from .sources import Perturbations

FLAT_LIMIT = 1 << 21
"""Longest joint period, in numbers, stored as a whole table; longer periods are read along the base's diagonals."""


@dataclass(frozen=True)
class PeriodicTable:
    """A periodic sequence spread over the lanes of a tile.

    Parameters
    ----------
    rows : Tensor (times, width)
        Cycle t is in row ``t mod times``, from column ``t mod turn`` on.
    lanes : int
        Numbers of a cycle; equals the width if `turn` is 1.
    turn : int
        Cycles until reading starts at column 0 again.
    """

    rows: Tensor
    lanes: int
    turn: int

    @classmethod
    def spread(cls, base: Tensor, rotates: bool, period: int, lanes: int) -> PeriodicTable:
        """Table of a base (times, n), see `perturbation.FoldableSource.base`."""
        times, n = base.shape
        if rotates and period * lanes > FLAT_LIMIT:
            return cls(base[:, torch.arange(n - 1 + lanes, device=base.device) % n], lanes, n)
        cycles = torch.arange(period, device=base.device)[:, None]
        columns = torch.arange(lanes, device=base.device) % n + (cycles if rotates else 0)
        return cls(base[cycles % times, columns % n], lanes, 1)

    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        """Add a multiple of the sequence to `flat`, from `offset` numbers after cycle `position` on; integers wrap."""
        done = 0
        for view in self._views(position + offset // self.lanes, offset % self.lanes, len(flat)):
            flat[done : done + view.numel()].view(view.shape).add_(view, alpha=coefficient)
            done += view.numel()

    def _views(self, cycle: int, lane: int, count: int) -> Iterator[Tensor]:
        """Views of the table that join to `count` numbers of the sequence, from a lane of a cycle on."""
        return self._flat(cycle, lane, count) if self.turn == 1 else self._diagonal(cycle, lane, count)

    def _flat(self, cycle: int, lane: int, count: int) -> Iterator[Tensor]:
        whole = self.rows.view(-1)
        head = whole[cycle % len(self.rows) * self.lanes + lane :][:count]
        yield head
        repeats, rest = divmod(count - len(head), len(whole))
        if repeats:
            yield whole.expand(repeats, -1)
        if rest:
            yield whole[:rest]

    def _diagonal(self, cycle: int, lane: int, count: int) -> Iterator[Tensor]:
        # the next cycle is one row and one column further: a full turn is a matrix with a row stride of width + 1
        times, width = self.rows.shape
        if lane or count < self.lanes:
            part = self.rows[cycle % times, cycle % self.turn :][lane : min(self.lanes, lane + count)]
            yield part
            cycle, count = cycle + 1, count - len(part)
        remaining, rest = divmod(count, self.lanes)
        while remaining:
            time, column = cycle % times, cycle % self.turn
            cycles = min(remaining, times - time)
            turns = 0 if column else cycles // self.turn
            cycles = turns * self.turn or min(cycles, self.turn - column)
            shape = (turns or 1, cycles // (turns or 1), self.lanes)
            yield self.rows.as_strided(shape, (self.turn * width, width + 1, 1), time * width + column)
            cycle, remaining = cycle + cycles, remaining - cycles
        if rest:
            yield self.rows[cycle % times, cycle % self.turn :][:rest]


@dataclass(frozen=True)
class Periodic(Perturbations):
    """Perturbations from a generator of PeZO, element for element equal to its RTL's.

    Added to float tensors, the numbers are scaled values rounded to the tensor's type. Added to int32, they are
    integers with `fraction_bits` fraction bits; the coefficient is then an integer, and sums are modulo 2**32.

    Parameters
    ----------
    spec : PezoSpec, PoolSpec or ScaleSpec
        The generator.
    lanes : int
        Width of a tile: weight i takes lane ``i mod lanes`` of cycle ``i div lanes`` (`golden.rng.perturbation`).
    fraction : int, optional
        Fraction bits to which the numbers are narrowed, half to even; by default the generator's. Fewer bits allow
        larger integer coefficients, see `weights.IntegerWeights`.

    Raises
    ------
    UserError
        If lanes are not in 1 to 4096, or fraction bits not in 1 to the generator's.
    """

    spec: FoldableSource
    lanes: int = 32
    fraction: int | None = None

    def __post_init__(self) -> None:
        check_range("lanes", self.lanes, 1, 4096)
        if self.fraction is not None and not 1 <= self.fraction <= self.spec.fraction_bits:
            raise UserError(f"fraction = {self.fraction} bits is not in 1 to the generator's {self.spec.fraction_bits}")

    @property
    def fraction_bits(self) -> int:
        return self.spec.fraction_bits if self.fraction is None else self.fraction

    def span(self, weights: int) -> int:
        """Cycles of the tile for a number of weights."""
        return cycles_of(weights, self.lanes)

    def directions(self, weights: int) -> int:
        """Number of consecutive perturbations of a vector before the first repeats.

        This number, and the length of the base, bound the dimensions of their span.
        """
        return self.spec.period // gcd(self.spec.period, self.span(weights))

    def add_(self, flat: Tensor, position: int, offset: int, coefficient: float) -> None:
        self._table(flat.dtype, flat.device).add_(flat, position, offset, coefficient)

    def accumulate(self, steps: Iterable[tuple[int, int]]) -> Tensor:
        """Sum of integer multiples of perturbations as a short table (times, n), the argument of `table_of`.

        Steps are position and coefficient of each perturbation, in any order. The sum is int32 modulo 2**32, with
        `fraction_bits` fraction bits.
        """
        coefficients: defaultdict[int, int] = defaultdict(int)
        for position, coefficient in steps:
            coefficients[position % self.spec.period] += coefficient
        times, n = self._base.shape
        # with time along rows, a shift of the sequence is a slice with long rows
        by_time = self._base.T.repeat(2 if self.spec.rotates else 1, 2)
        total = torch.zeros(n, times, dtype=torch.int32)
        for position, coefficient in coefficients.items():
            time, column = position % times, position % n if self.spec.rotates else 0
            total.add_(by_time[column : column + n, time : time + times], alpha=wrapped(coefficient))
        return total.T.contiguous()

    def table_of(self, total: Tensor) -> PeriodicTable:
        """Table of a sum of steps, to be added at position 0 to every part of the vector.

        Raises
        ------
        UserError
            If the sum does not have the base's shape, or is not int32.
        """
        if total.shape != self._base.shape or total.dtype != torch.int32:
            raise UserError(
                f"a sum of {tuple(total.shape)} {total.dtype} does not fit this source, whose sums are "
                f"{tuple(self._base.shape)} torch.int32"
            )
        return PeriodicTable.spread(total, self.spec.rotates, self.spec.period, self.lanes)

    @cached_property
    def _base(self) -> Tensor:
        base = narrow(self.spec.base, self.spec.fraction_bits, Format(32 - self.fraction_bits, self.fraction_bits))
        return torch.from_numpy(base).to(torch.int32)

    @cached_property
    def _tables(self) -> dict[tuple[torch.dtype, torch.device], PeriodicTable]:
        return {}

    def _table(self, dtype: torch.dtype, device: torch.device) -> PeriodicTable:
        if (dtype, device) not in self._tables:
            if dtype.is_floating_point:
                base = self._base.double().mul_(2.0**-self.fraction_bits).to(device, dtype)
            elif dtype == torch.int32:
                base = self._base.to(device)
            else:
                raise UserError(f"perturbations are added to floats and to int32, not to {dtype}")
            table = PeriodicTable.spread(base, self.spec.rotates, self.spec.period, self.lanes)
            self._tables[dtype, device] = table
        return self._tables[dtype, device]


def wrapped(value: int) -> int:
    """Integer modulo 2**32, in the range of int32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
