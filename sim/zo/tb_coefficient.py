"""Bench of `coefficient`: steps of all sizes, ties, extreme coefficients, all shifts; exact cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...golden.block import Words, last_flags, packets_of
from ...golden.fixed import Integers
from ...golden.zo.coefficient import COEFFICIENT, LARGEST_BATCH, LARGEST_SHIFT, RATE, CoefficientSpec
from ...golden.zo.loss_difference import DIFFERENCE
from ..phase import Phase
from ..stimulus import random_lengths, two_jobs


def stimulus(spec: CoefficientSpec, rng: np.random.Generator, words: int) -> dict[str, Words]:
    """Steps of all sizes and kinds in random order, many of them short; then steps with the largest products."""
    lengths = [*rng.integers(1, 5, 48).tolist(), *random_lengths(rng, words, LARGEST_BATCH)]
    kinds = (rng.permutation(len(lengths)) % 6).tolist()
    steps = [_step(rng, length, kind) for length, kind in zip(lengths, kinds, strict=True)]
    for end, rate in ((DIFFERENCE.minimum, RATE.maximum), (DIFFERENCE.maximum, 3 << (RATE.width - 2))):
        steps.append((np.full(LARGEST_BATCH, end), rate, LARGEST_SHIFT))
    steps.append((np.full(LARGEST_BATCH, DIFFERENCE.minimum), 3 << (RATE.width - 2), LARGEST_SHIFT))  # 1.5, a tie
    return {
        "i": {
            "difference": np.concatenate([step[0] for step in steps])[:, None],
            "last": last_flags([len(step[0]) for step in steps]),
        },
        "rate": {name: np.array([step[at] for step in steps])[:, None] for at, name in ((1, "rate"), (2, "shift"))},
    }


def _step(rng: np.random.Generator, length: int, kind: int) -> tuple[Integers, int, int]:
    """Differences, rate and shift of a step."""
    rate = int(rng.integers(1, RATE.maximum, endpoint=True))
    if kind == 0:  # coefficients of all magnitudes
        differences = rng.integers(DIFFERENCE.minimum, DIFFERENCE.maximum, length, endpoint=True) >> rng.integers(30)
        product = abs(int(differences.sum())) * rate
        return differences, rate, max(product.bit_length() - int(rng.integers(0, COEFFICIENT.width)), 0)
    if kind == 1:
        differences = rng.choice([DIFFERENCE.minimum, DIFFERENCE.maximum], length)
        return differences, RATE.maximum, int(rng.choice([0, LARGEST_SHIFT, int(rng.integers(LARGEST_SHIFT))]))
    if kind == 2:
        differences = rng.integers(DIFFERENCE.minimum, DIFFERENCE.maximum, length, endpoint=True)
        return differences, 0, int(rng.choice([0, 1, LARGEST_SHIFT]))
    if kind == 3:  # no shift, small and large coefficients
        differences = rng.integers(-(1 << 12), 1 << 12, length)
        return differences, int(rng.choice([1, rate])), 0
    # a coefficient near 0 or at a limit, at a tie or one unit away
    shift, zeros = int(rng.integers(1, 12)), int(rng.integers(0, RATE.width))
    about = rng.integers(-5, 5) if kind == 4 else rng.choice([COEFFICIENT.maximum, COEFFICIENT.minimum - 1])
    total = (int(about) << shift) + (1 << (shift - 1)) + int(rng.integers(-1, 2))
    return _parts(rng, -total, length), 1 << zeros, shift + zeros


def _parts(rng: np.random.Generator, total: int, length: int) -> Integers:
    """Random differences with the sum `total`."""
    parts = rng.integers(-(1 << 30), 1 << 30, length)
    parts[-1] += total - int(parts.sum())
    return parts


def scenario(spec: CoefficientSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Two jobs, whose cycles are the sum of their steps' periods; then a step with a late rate."""
    jobs = [replace(phase, cycles=_cycles(spec, phase)) for phase in two_jobs(spec, rng, words, stimulus)]
    differences, rate, shift = _step(rng, 3, 0)
    step = {"difference": differences[:, None], "last": last_flags([3])}
    rates = {"rate": np.array([[rate]]), "shift": np.array([[shift]])}
    late = Phase({"rate": rates}, spec.run({"i": step, "rate": rates}, 1), cycles=spec.latency_of(shift), quiet=True)
    return [*jobs, Phase({"i": step}, quiet=True), late]


def _cycles(spec: CoefficientSpec, phase: Phase) -> int:
    steps = packets_of(phase.inputs["i"]["last"])
    shifts = phase.inputs["rate"]["shift"][:, 0].tolist()
    return sum(spec.period(end - start, shift) for (start, end), shift in zip(steps, shifts, strict=True))
