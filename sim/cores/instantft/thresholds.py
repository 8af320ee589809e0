"""Networks whose logits lie at NF4 thresholds; the scales are chosen so that a threshold is close to an integer."""

from __future__ import annotations

import numpy as np

from ....golden.fixed import Q4_12, Integers
from ....golden.models.network import Network
from ....golden.nf4.codec import THRESHOLD_FRACTION, THRESHOLDS
from ....golden.nn.arithmetic.forward import StageIntegers

_LOW_BITS = 4
"""Number of a logit's low bits that a bias does not reach."""
_LARGEST = Q4_12.maximum << _LOW_BITS
_HIDDEN = 1 << Q4_12.fraction - _LOW_BITS
"""Bias of the stage before the last, in Q4.12: its product with a weight of 1 unit is 1 unit of a logit."""


def threshold_scales() -> list[int]:
    """For each threshold, list two scales: their product with it is nearest to an integer, from below and above."""
    scales = np.arange(_LARGEST >> 1, _LARGEST)
    parts = [scales * threshold % (1 << THRESHOLD_FRACTION) for threshold in THRESHOLDS.tolist()]
    return sorted({int(scales[at]) for part in parts for at in (part.argmin(), part.argmax())})


def threshold_parameters(network: Network, scale: int, rng: np.random.Generator) -> list[StageIntegers]:
    """Make frozen parameters that give all samples the same logits: the largest is the scale, others are at thresholds.

    Only the last stage has nonzero weights; the biases of all other stages are equal. Half of the logits are 1 unit in
    the last place above their threshold, where the next code begins.
    """
    *others, last = network.stages
    frozen = [StageIntegers(np.zeros(stage.weight_shape, np.int64), np.full(stage.biases, _HIDDEN)) for stage in others]
    logits = _logits(scale, last.biases, rng)
    weight = np.zeros(last.weight_shape, np.int64)
    weight.reshape(last.biases, -1)[:, 0] = logits & (1 << _LOW_BITS) - 1
    return [*frozen, StageIntegers(weight, logits >> _LOW_BITS)]


def _logits(scale: int, count: int, rng: np.random.Generator) -> Integers:
    """Draw logits: the scale, both integers around the threshold nearest to one, one integer next to each other."""
    products = scale * THRESHOLDS
    one = 1 << THRESHOLD_FRACTION
    nearest, *others = (products >> THRESHOLD_FRACTION)[np.minimum(products % one, -products % one).argsort()].tolist()
    sides = np.array(others) + rng.integers(2, size=len(others))
    return np.resize(np.array([scale, nearest, nearest + 1, *sides]), count)
