"""Trials of `zotrain`: jobs, entries of order lists, settings and their limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import ClassVar

import numpy as np

from ....golden.axi.bus import BEAT
from ....golden.cores.zeroth_order.registers import Command, Error
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import Q4_12
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.deltas import DELTA
from ....golden.zo.memory_layout import LABEL_BIT
from ....golden.zo.scalars import LARGEST
from ....golden.zo.split import MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES, Split
from ...compiled.playing import ShortJob
from ...trials.contract import OrderEntry, Trials, told_address
from ...trials.draws import between
from ...trials.order_lists import step_entries
from .short_jobs import TrainingVariation, short_training

LONG = 1 << 13
"""Steps beyond which a job is long: about 1,000 cycles each with a network for trials, half a minute in all."""
_DROPPED = 1 << (DELTA.fraction - Q4_12.fraction)
"""Unit of an offset, in that of the deltas from which it is rounded."""
_SPLITS = ((16, 4), (13, 5), (5, 13), (16, 16))
"""Perturbations of both parts, each as many as there may be: of the first pair all slopes are kept, of others not."""
_NEAR_SCALARS = tuple(near + step for near in (LARGEST, 2 * LARGEST + 1) for step in range(-3, 4))
"""Magnitudes of coefficients around those from which a common shift is one more."""


class TrainingTrials(Trials[ZotrainSpec, TrainingVariation]):
    """Trials of a core that trains by zeroth order; there is no job at edges of its own."""

    command: ClassVar[IntEnum] = Command.TRAIN
    loads: ClassVar[tuple[IntEnum, ...]] = (Command.LOAD,)

    def job(self, spec: ZotrainSpec, seed: int, variation: TrainingVariation) -> ShortJob:
        """Make a job with golden's results."""
        return short_training(spec, seed, variation)

    def short(self, spec: ZotrainSpec) -> dict[str, TrainingVariation]:
        """List jobs that together reach every part of the core, by name."""
        found = {
            "base": TrainingVariation(),
            "clipped": TrainingVariation(gain=60.0, shift=13, eps_shift=4),
            "large": TrainingVariation(gain=4.0, eps_shift=6, shift=20, rate=65_000, start=DELTA.maximum >> 6),
            "small": TrainingVariation(eps_shift=12, shift=34, rate=1),
            "full": TrainingVariation(samples=600, sizes=(LARGEST_BATCH, 2), gain=3.0),
            "late": TrainingVariation(sizes=(2,) * 6, late=True),
            # offsets half-way between two numbers of Q4.12, and beyond its ends
            "ties": TrainingVariation(eps_shift=4, shift=30, start=DELTA.maximum >> 6, grain=_DROPPED >> 1),
            "ends": TrainingVariation(eps_shift=4, shift=30, start=DELTA.maximum, grain=DELTA.maximum - _DROPPED),
            # deltas stay below half a last place, so that the inference is of the parameters alone
            "halves": TrainingVariation(samples=24, sizes=(1,), eps_shift=12, shift=62, gain=2.0, halves=True),
            "several": TrainingVariation(sizes=(2, 1), split=Split(0, 5), scalars=True, eps_shift=7),
            # coefficients around the largest that needs no common shift, and around that of a shift by one
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
        """Draw a job with random settings and more data."""
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
        """List a job of more than `LONG` steps, for counters and addresses."""
        return {"long": TrainingVariation(samples=2, sizes=(1,) * (LONG + 1), shift=30)}

    def usual(self, spec: ZotrainSpec) -> dict[str, int]:
        """Make settings that are no addresses, which the core does not refuse."""
        jobs = {"sample_count": 1, "steps": 1, "batch": 1, "position": 0, "eps_shift": 4, "shift": 0}
        return jobs | {"cut": 0, "p1": 1, "p2": 1, "gap": 0, "scalars": 0}

    def limits(self, spec: ZotrainSpec) -> set[int]:
        """Numbers at which settings of the core end."""
        found = {len(spec.mapping.forward.stages), spec.source.period, MOST_GAP, MOST_PERTURBATIONS, MOST_SLOPES}
        return found | {spec.kept_samples(cut) for cut in _cuts(spec)}

    def together(self, spec: ZotrainSpec, values: Sequence[int]) -> Iterator[dict[str, int]]:
        """Make settings that are at a limit together: each cut, with perturbations of either part, and of both."""
        for cut in _cuts(spec):
            for name in ("p1", "p2"):
                for value in values:
                    yield {"cut": cut, name: value}
            for first, second in _SPLITS:
                yield {"cut": cut, "p1": first, "p2": second}

    def entries(self, spec: ZotrainSpec) -> Iterator[OrderEntry]:
        """Make order lists with one entry at a limit; last each bit of the index of a sample that cannot be read."""
        yield from step_entries(Error, spec.labels)
        samples = 1 << spec.address - 1
        for bit in range(LABEL_BIT):
            index, address = 1 << bit, samples + (BEAT * spec.mapping.forward.sample_beats << bit)
            settings = {"samples": samples, "sample_count": index + 1}
            yield OrderEntry((1, index), settings, Error.READ_DECERR, told_address(spec, address))


def _cuts(spec: ZotrainSpec) -> range:
    """Stages before which the core can cut its forward pass."""
    return range(1, len(spec.mapping.forward.stages) if spec.cut_rows else 1)


TRIALS = TrainingTrials()
"""Trials of `zotrain`, as its `Spec.part` finds them."""
