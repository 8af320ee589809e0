"""Bench of `loss_difference`: pairs of all lengths, with close, distant, equal or extreme logits; exact cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words, last_flags, packets_of
from ...golden.fixed import Q8_16, Integers
from ...golden.nn.celoss import LABEL
from ...golden.zo.loss_difference import LossDifferenceSpec
from ..phase import Phase
from ..stimulus import random_lengths, two_jobs


def stimulus(spec: LossDifferenceSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Pairs of all lengths including the longest; labels are often the first or last class, sometimes invalid."""
    lengths = random_lengths(rng, max(words // 2, 2), spec.classes)
    lengths.insert(len(lengths) // 2, spec.classes)
    sides = [side for kind, length in enumerate(lengths) for side in _pair(rng, length, kind % 6)]
    labels = [
        int(rng.choice([0, length - 1, int(rng.integers(length)), int(rng.integers(LABEL.maximum, endpoint=True))]))
        for length in lengths
    ]
    return {
        "i": {"logit": np.concatenate(sides)[:, None], "last": last_flags(np.repeat(lengths, 2).tolist())},
        "label": {"label": np.array(labels)[:, None]},
    }


def _pair(rng: np.random.Generator, length: int, kind: int) -> tuple[Integers, Integers]:
    """Logits of both sides."""
    ends = [Q8_16.minimum, Q8_16.maximum]
    if kind == 0:  # as in training
        plus = Q8_16.from_float(rng.normal(0, 3, length))
        return plus, plus + rng.integers(-400, 401, length)
    if kind == 1:
        plus, minus = rng.integers(Q8_16.minimum, Q8_16.maximum, (2, length), endpoint=True)
        return plus, minus
    if kind == 2:  # probability differences up to +-2, logit differences of 24 bits
        plus = rng.choice([Q8_16.minimum, 0], length)
        plus[rng.integers(length)] = Q8_16.maximum
        return plus, plus[::-1]
    if kind == 3:
        plus, minus = rng.choice(ends, (2, length))
        return plus, minus
    if kind == 4:
        plus = Q8_16.from_float(rng.normal(0, 3, length))
        return plus, plus
    plus, minus = Q8_16.from_float(rng.normal(0, 1, (2, length)))
    return plus, minus


def scenario(spec: LossDifferenceSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs of whole pairs with exact cycles; then two pairs with late labels."""
    jobs = [
        replace(phase, cycles=spec.cycles([end - start for start, end in packets_of(phase.inputs["i"]["last"])[::2]]))
        for phase in two_jobs(spec, rng, words, stimulus)
    ]
    sides = [side for _ in range(spec.pairs) for side in _pair(rng, spec.classes, 0)]
    logits = {"logit": np.concatenate(sides)[:, None], "last": last_flags([spec.classes] * len(sides))}
    labels = {"label": rng.integers(0, spec.classes, (spec.pairs, 1))}
    expected = spec.run({"i": logits, "label": labels}, spec.pairs)
    return [*jobs, Phase({"i": logits}, quiet=True), Phase({"label": labels}, expected, quiet=True)]
