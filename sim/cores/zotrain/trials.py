"""Stress tests of `zotrain`: short zeroth-order jobs, entries of sample schedules, settings and their limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ClassVar

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.cores.zeroth_order.registers import Command, Error
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import Q4_12, Integers
from ....golden.nn.arithmetic.random_parameters import random_parameters
from ....golden.rng.perturbation import POSITIONS
from ....golden.zo.coefficient import LARGEST_BATCH, RATE
from ....golden.zo.deltas import DELTA
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import LABEL_BIT, StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.scalars import LARGEST
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES, WHOLE, Split
from ...compiled.playing import ShortJob
from ...trials.contract import Ending, Trials, order_ending, told_address
from ...trials.draws import HALF, between, in_grains, samples_of
from ...trials.order_lists import step_entries
from ..zeroth_order_job import StepVariation, TrainingJob


@dataclass(frozen=True, kw_only=True)
class TrainingVariation(StepVariation):
    """Settings of a short zeroth-order job.

    Parameters
    ----------
    samples : int
    split : Split
    grain : int
        Grain of the initial deltas.
    halves : bool
        Parameters are multiples of 0.5, so that in an inference without deltas every second sum of products lies
        half-way between two numbers of Q8.16.
    near : tuple of int
        Wanted magnitudes of the steps' coefficients, in turn; each step gets the rate that comes nearest. For steps
        with one perturbation. Empty: rates follow `rate`.
    """

    samples: int = 6
    split: Split = WHOLE
    grain: int = 1
    halves: bool = False
    near: tuple[int, ...] = ()


def short_training(spec: ZotrainSpec, seed: int, variation: TrainingVariation | None = None) -> ShortJob:
    """Make a short zeroth-order training; network, samples, order, position and deltas follow from `seed`."""
    rng, wanted = np.random.default_rng(seed), variation or TrainingVariation()
    network, samples, period = spec.described, wanted.samples, min(spec.source.period, POSITIONS)
    labels = rng.integers(0, spec.labels, samples)
    drawn = [rng.integers(0, samples, size) for size in wanted.sizes]
    position = int(rng.integers(1000))
    settings = wanted.settings(wanted.split, spec.loss)
    frozen = random_parameters(network, rng, wanted.gain)
    frozen = in_grains(frozen, HALF if wanted.halves else 1)
    inputs = samples_of(network, spec.byte_inputs, samples, rng)
    steps = wanted.steps(drawn, labels)
    position = period - 1 - position % 100 if wanted.late else position
    integers = ZerothOrderJob(NetworkModel(spec.mapping, frozen), spec.source, settings, position)
    if wanted.start:
        most = wanted.start // wanted.grain
        integers.total = wanted.grain * rng.integers(-most, most, integers.total.shape, endpoint=True)
    rows = integers.rows
    if wanted.near:
        steps = _with_rates(integers, spec.values_of(inputs), steps, wanted.near)
    return ShortJob(spec, TrainingJob(frozen, inputs, steps, settings, position, rows))


def _with_rates(
    golden: ZerothOrderJob, values: Integers, steps: Sequence[StepOrder], near: Sequence[int]
) -> list[StepOrder]:
    """Give each step the rate with which its coefficient comes nearest to one of these magnitudes, in turn."""
    found = []
    for number, step in enumerate(steps):
        position, given = golden.position, (values[step.indices], step.labels)
        (slope,) = golden.step(*given, rate=0)  # moves nothing
        rate = round((near[number % len(near)] << golden.settings.shift) / max(abs(slope.difference), 1))
        found.append(replace(step, rate=min(max(rate, 1), RATE.maximum)))
        golden.position = position
        golden.step(*given, found[-1].rate)
    return found


LONG = 1 << 13
"""Jobs with more steps are long: at about 1,000 cycles a step this number takes half a minute."""
_DROPPED = 1 << (DELTA.fraction - Q4_12.fraction)
"""Unit of an offset, in units of a delta; an offset is a rounded delta."""
_SPLITS = ((16, 4), (13, 5), (5, 13), (16, 16))
"""Perturbations of both parts, some at their limits: only for the first pair all projected gradients are kept."""
_NEAR_SCALARS = tuple(near + step for near in (LARGEST, 2 * LARGEST + 1) for step in range(-3, 4))
"""Coefficients around the limits at which the common shift grows by one."""


class TrainingTrials(Trials[ZotrainSpec, TrainingVariation]):
    """Stress tests of a zeroth-order core; without edge jobs."""

    command: ClassVar[IntEnum] = Command.TRAIN
    loads: ClassVar[tuple[IntEnum, ...]] = (Command.LOAD,)

    def job(self, spec: ZotrainSpec, seed: int, variation: TrainingVariation) -> ShortJob:
        return short_training(spec, seed, variation)

    def short(self, spec: ZotrainSpec) -> dict[str, TrainingVariation]:
        found = {
            "base": TrainingVariation(),
            "clipped": TrainingVariation(gain=60.0, shift=13, eps_shift=4),
            "large": TrainingVariation(gain=4.0, eps_shift=6, shift=20, rate=65_000, start=DELTA.maximum >> 6),
            "small": TrainingVariation(eps_shift=12, shift=34, rate=1),
            "full": TrainingVariation(samples=600, sizes=(LARGEST_BATCH, 2), gain=3.0),
            "late": TrainingVariation(sizes=(2,) * 6, late=True),
            # offsets that lie half-way between two numbers of Q4.12, and offsets beyond the range
            "ties": TrainingVariation(eps_shift=4, shift=30, start=DELTA.maximum >> 6, grain=_DROPPED >> 1),
            "ends": TrainingVariation(eps_shift=4, shift=30, start=DELTA.maximum, grain=DELTA.maximum - _DROPPED),
            # deltas stay below half a unit in the last place, so that the inference uses the parameters alone
            "halves": TrainingVariation(samples=24, sizes=(1,), eps_shift=12, shift=62, gain=2.0, halves=True),
            "several": TrainingVariation(sizes=(2, 1), split=Split(0, 5), scalars=True, eps_shift=7),
            # coefficients around the largest that needs no common shift, and the largest that needs a shift by 1
            "scalars": TrainingVariation(
                samples=24, sizes=(1,) * 96, eps_shift=6, shift=30, scalars=True, near=_NEAR_SCALARS
            ),
        }
        for cut in _cuts(spec):
            most = min(spec.kept_samples(cut), 4)
            if most:
                sizes = (most, max(most - 1, 1))
                found[f"cut {cut}"] = TrainingVariation(
                    sizes=sizes, split=Split(cut, 2, 3), gain=4.0, scalars=cut % 2 == 0
                )
                found[f"cut {cut}, 16 and 4"] = TrainingVariation(sizes=(1,), split=Split(cut, 16, 4), eps_shift=8)
        return found

    def random(self, spec: ZotrainSpec, rng: np.random.Generator) -> TrainingVariation:
        cuts = [cut for cut in _cuts(spec) if spec.kept_samples(cut)]
        cut = int(rng.choice([0, *cuts]))
        first = int(rng.integers(1, 1 + (MOST_PERTURBATIONS if rng.integers(2) else 2)))
        second = int(rng.integers(1, 1 + min(MOST_PERTURBATIONS, MOST_SLOPES // first))) if cut else 1
        most = min(16, spec.kept_samples(cut)) if cut else 16
        return TrainingVariation(
            samples=40,
            sizes=tuple(int(size) for size in rng.integers(1, 1 + most, 8 if first * second < 8 else 2)),
            split=Split(cut, first, second),
            scalars=bool(rng.integers(2)),
            gain=between(rng, 0.3, 30),
            rate=round(between(rng, 1, 65_535)),
            shift=int(rng.integers(14, 34)),
            eps_shift=int(rng.integers(4, 12, endpoint=True)),
            start=round(between(rng, 1, DELTA.maximum)),
        )

    def long(self, spec: ZotrainSpec) -> dict[str, TrainingVariation]:
        return {"long": TrainingVariation(samples=2, sizes=(1,) * (LONG + 1), shift=30)}

    def usual(self, spec: ZotrainSpec) -> dict[str, int]:
        jobs = {"sample_count": 1, "steps": 1, "batch": 1, "position": 0, "eps_shift": 4, "shift": 0}
        return jobs | {"cut": 0, "p1": 1, "p2": 1, "gap": 0, "scalars": 0}

    def limits(self, spec: ZotrainSpec) -> set[int]:
        found = {len(spec.mapping.forward.stages), spec.source.period, MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES}
        return found | {spec.kept_samples(cut) for cut in _cuts(spec)}

    def together(self, spec: ZotrainSpec, values: Sequence[int]) -> Iterator[dict[str, int]]:
        """Jobs for each cut, which perturb the first part, the second part, or both."""
        for cut in _cuts(spec):
            for name in ("p1", "p2"):
                for value in values:
                    yield {"cut": cut, name: value}
            for first, second in _SPLITS:
                yield {"cut": cut, "p1": first, "p2": second}

    def entries(self, spec: ZotrainSpec) -> Iterator[Ending]:
        """Schedules of all zeroth-order jobs; then unreadable samples, one for each bit of the index."""
        yield from step_entries(Error, spec.labels)
        samples = 1 << spec.address - 1
        for bit in range(LABEL_BIT):
            index, address = 1 << bit, samples + (BEAT * spec.mapping.forward.sample_beats << bit)
            settings = {"samples": samples, "sample_count": index + 1}
            yield order_ending((1, index), settings, Error.READ_DECERR, told_address(spec, address))


def _cuts(spec: ZotrainSpec) -> range:
    """Stages before which the core can cut its forward pass."""
    return range(1, len(spec.mapping.forward.stages) if spec.cut_rows else 1)


TRIALS = TrainingTrials()
