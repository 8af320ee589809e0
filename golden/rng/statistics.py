"""Statistics to compare random-number generators.

Inputs are the output of a generator: (cycles,), or (cycles, n) with a sequence in time in each column.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UserError


@dataclass(frozen=True)
class Quality:
    """Result of `measure`, in the unit of the numbers.

    Attributes
    ----------
    count : int
        Number of numbers.
    mean, deviation : float
        Mean and standard deviation.
    kurtosis : float
        Excess kurtosis: 0 for a Gaussian, -1.2 for a uniform distribution.
    correlations : dict of int to float
        Autocorrelation by lag in cycles.
    """

    count: int
    mean: float
    deviation: float
    kurtosis: float
    correlations: dict[int, float]

    @property
    def worst_lag(self) -> int:
        return max(self.correlations, key=lambda lag: abs(self.correlations[lag]))


def measure(numbers: ArrayLike, lags: Iterable[int] = range(1, 1025)) -> Quality:
    """Moments of all numbers together, and autocorrelation at `lags` cycles, of numbers (cycles,) or (cycles, n).

    Raises `UserError` if a lag is not shorter than the sequence, or all numbers are equal.
    """
    columns = _columns(numbers)
    mean = columns.mean()
    variance = columns.var()
    if not variance:
        raise UserError(f"{columns.size} numbers, all equal to {mean}: nothing to correlate")
    fourth = np.mean((columns - mean) ** 4)
    return Quality(
        count=columns.size,
        mean=float(mean),
        deviation=float(np.sqrt(variance)),
        kurtosis=float(fourth / variance**2 - 3),
        correlations=autocorrelation(columns, lags),
    )


def autocorrelation(numbers: ArrayLike, lags: Iterable[int]) -> dict[int, float]:
    """Mean product of deviations a lag apart over the variance, by lag; columns are pooled.

    Deviations are from the mean of all numbers; each lag's mean is over all available pairs.
    """
    columns = _columns(numbers)
    cycles, lags = len(columns), tuple(lags)
    if wrong := [lag for lag in lags if not 0 <= lag < cycles]:
        raise UserError(f"no autocorrelation of {cycles} cycles at lag {wrong[0]}: take 0 to {cycles - 1}")
    centred = columns - columns.mean()
    # zero padding longer than the longest lag: the circular transform does not wrap
    size = 1 << (cycles + max(lags, default=0) - 1).bit_length()
    products = np.zeros(size)
    for column in centred.T:
        products += np.fft.irfft(np.abs(np.fft.rfft(column, size)) ** 2, size)
    scale = centred.var() * columns.shape[1]
    return {lag: float(products[lag] / (cycles - lag) / scale) for lag in lags}


def modulus(numbers: ArrayLike, block: int | None = None) -> NDArray[np.float64]:
    """Euclidean length of each cycle's n numbers, or of each block of successive numbers: (blocks,).

    `block` is the numbers of a block, by default n. Numbers after the last whole block are ignored.
    """
    columns = _columns(numbers)
    block = columns.shape[1] if block is None else block
    if not 1 <= block <= columns.size:
        raise UserError(f"no block of {block} in {columns.size} numbers: take 1 to {columns.size}")
    whole = columns.size // block
    return np.asarray(np.linalg.norm(columns.reshape(-1)[: whole * block].reshape(whole, block), axis=1))


def _columns(numbers: ArrayLike) -> NDArray[np.float64]:
    columns = np.asarray(numbers, np.float64)
    if columns.ndim not in (1, 2) or not columns.size:
        raise UserError(f"numbers of shape {columns.shape}: give (cycles,) or (cycles, n)")
    return columns.reshape(len(columns), -1)
