"""Bench of `mse_difference`: pairs of close, distant, equal or extreme logits, and near ties; exact cycles."""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from ...golden.block import Words, last_flags
from ...golden.fixed import Q8_16, Integers
from ...golden.zo.loss_difference import DIFFERENCE
from ...golden.zo.mse_difference import ERROR, MseDifferenceSpec, size_bits
from ..phase import Phase
from ..stimulus import two_jobs


def stimulus(spec: MseDifferenceSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """At least five pairs, cycling through the five kinds."""
    pairs = max(words // (2 * spec.outputs), 5)
    made = [
        _near_tie(rng, spec.outputs, number // 5) if number % 5 == 4 else _pair(rng, spec.outputs, number % 5)
        for number in range(pairs)
    ]
    logits = np.concatenate([side for plus, minus, _ in made for side in (plus, minus)])
    targets = np.concatenate([side for *_, target in made for side in (target, target)])
    return {
        "i": {"logit": logits[:, None], "last": last_flags([spec.outputs] * (2 * pairs))},
        "target": {"target": targets[:, None]},
    }


def _pair(rng: np.random.Generator, outputs: int, kind: int) -> tuple[Integers, Integers, Integers]:
    """Logits of both sides, and targets."""
    ends = [Q8_16.minimum, Q8_16.maximum]
    if kind == 0:  # as in training
        target = Q8_16.from_float(rng.normal(0, 1, outputs))
        plus = target + Q8_16.from_float(rng.normal(0, 0.3, outputs))
        return plus, plus + rng.integers(-400, 401, outputs), target
    if kind == 1:  # differences are clipped
        target = rng.choice(ends, outputs)
        sides = (target, ~target) if rng.integers(2) else (~target, target)
        return *sides, target
    if kind == 2:
        plus, target = rng.choice(ends, (2, outputs))
        return plus, plus, target
    plus, minus, target = rng.integers(Q8_16.minimum, Q8_16.maximum, (3, outputs), endpoint=True)
    return plus, minus, target


def _near_tie(rng: np.random.Generator, outputs: int, turn: int) -> tuple[Integers, Integers, Integers]:
    """A pair whose first sum is a tie, or one bit above a tie; `turn` selects the bit."""
    turn, rounding = divmod(turn, 2)
    dropped = 2 * Q8_16.fraction + 1 + size_bits(outputs) - (DIFFERENCE, ERROR)[rounding].fraction
    bit = turn % dropped
    tie = bit == dropped - 1
    # a lost bit above the tie shows only after an even number; the tie itself is tested after both
    number = 2 * int(rng.integers(8)) + int(tie and rng.integers(2))
    remainder = (number << dropped) + (1 << (dropped - 1)) + (0 if tie else 1 << bit)
    errors = np.zeros(outputs, np.int64)
    for at in range(outputs):
        errors[at] = isqrt(remainder)
        remainder -= int(errors[at]) ** 2
    target = rng.integers(-1 << 20, 1 << 20, outputs)
    sides = target + rng.permutation(errors) * rng.choice([-1, 1], outputs), target
    return (*sides, target) if rng.integers(2) else (*reversed(sides), target)


def scenario(spec: MseDifferenceSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs of whole pairs with exact cycles."""
    return [
        replace(phase, cycles=spec.period * len(phase.expected["o"]["error"]))
        for phase in two_jobs(spec, rng, words, stimulus)
    ]
