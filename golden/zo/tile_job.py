"""Integer fine-tuning on the tile, with the hardware's weights and perturbations (PeZO, equations 1 and 2).

Between steps, weights have 16 more fraction bits than the hardware's Q4.12, in which they are perturbed and used, so
that updates far below one last place are not lost. A step draws one perturbation, evaluates the loss on both sides, and
moves the weights along it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..fixed import Q4_12, Format, Integers, narrow
from ..rng.perturbation import draw_perturbation
from .tile import TileSpec

MASTER = Format(4, 28)
"""Format of the weights between steps."""


@dataclass(frozen=True)
class TileStep:
    """Record of a step.

    Parameters
    ----------
    position : int
        Position of the perturbation.
    weights : array of int
        Weights before the step, Q4.12.
    loss : float
        Mean of the losses on both sides.
    """

    position: int
    weights: Integers
    loss: float


def fine_tune(
    weights: Integers,
    loss: Callable[[Integers], float],
    tile: TileSpec,
    steps: int,
    rate: float,
) -> Iterator[TileStep]:
    """Fine-tune weights in place.

    Parameters
    ----------
    weights : array of int
        Flat vector in Q4.12; holds the tuned weights after each step.
    loss : callable
        Loss of a vector of Q4.12 integers; called twice per step, with the same samples both times.
    tile : TileSpec
        Spec of the hardware that perturbs the weights.
    steps : int
        Number of steps.
    rate : float
        Initial learning rate; it decreases to 0 along half a cosine.
    """
    master = weights.astype(np.int64) << (MASTER.fraction - Q4_12.fraction)
    eps = 2.0**-tile.eps_shift
    source, position = tile.pezo, 0
    scale = 2.0 ** (MASTER.fraction - source.fraction_bits)
    for number in range(steps):
        plus, minus, following = tile.step(weights, position)
        losses = loss(plus), loss(minus)
        fall = 0.5 + 0.5 * np.cos(np.pi * number / steps)
        gradient = (losses[0] - losses[1]) / (2 * eps)
        coefficient = int(np.rint(rate * fall * gradient * scale))
        record = TileStep(position, weights.copy(), sum(losses) / 2)
        master -= coefficient * draw_perturbation(source, position, len(weights), tile.lanes).astype(np.int64)
        np.clip(master, MASTER.minimum, MASTER.maximum, out=master)
        weights[:] = narrow(master, MASTER, Q4_12)
        position = following
        yield record
