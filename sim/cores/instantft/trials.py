"""Stress tests of `instantft`: short fine-tuning jobs, entries of sample schedules, settings and their limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

import numpy as np

from ....golden.cores.adapters.registers import Command, Error
from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.fixed import Q8_16, Integers
from ....golden.lora.adapters import Adapters
from ....golden.models.network import Network
from ....golden.nn.arithmetic.random_parameters import random_parameters
from ...compiled.playing import ShortJob
from ...trials.contract import Ending, Trials
from ...trials.draws import HALF, between, in_grains, multiples, samples_of
from ...trials.order_lists import batch_entries
from ..adapters_job import TuningJob
from . import ties
from .thresholds import threshold_parameters, threshold_scales


@dataclass(frozen=True, kw_only=True)
class TuningVariation:
    """Settings of a short fine-tuning job.

    Parameters
    ----------
    samples, epochs : int
    batch : int
        Samples of a batch; 0: the core's largest batch.
    gain : float
        Scale of the network's parameters; from about 50 on most values are clipped.
    rate : int
        Learning rate of a sample, see `golden.lora.adapters.rate_of`.
    start : int
        Standard deviation of the initial adapters, in units in the last place of Q4.12.
    raw : bool
        The cache holds Q8.16, if the core's cache can hold either format.
    grain : int
        Grain of parameters and adapters, in units of 2**-12.
    whole : bool
        All inputs are 0 or 1; with a coarse grain activations then have few bits too.
    scale : int
        NF4 scale at whose thresholds the frozen network's logits lie, see `thresholds`; 0: logits anywhere.
    ties : bool
        Network and adapters of `ties`: with a first batch of one sample and the rate of `ties`, many gradients lie
        half-way between two numbers, and so do the updated parameters.
    validated : int
        Number of further samples, for the validation after each epoch.
    patience : int
        The job ends after this number of successive losses above the smallest; 0: never.
    """

    samples: int = 7
    epochs: int = 2
    batch: int = 0
    gain: float = 1.0
    rate: int = 20_000
    start: int = 1500
    raw: bool = False
    grain: int = 1
    whole: bool = False
    scale: int = 0
    ties: bool = False
    validated: int = 0
    patience: int = 0


def short_tuning(spec: InstantftSpec, seed: int, variation: TuningVariation | None = None) -> ShortJob:
    """Make a short fine-tuning of adapters with logits; network, adapters, samples and order follow from `seed`."""
    rng, wanted = np.random.default_rng(seed), variation or TuningVariation()
    network, shape, samples = spec.described, spec.mapping.shape, wanted.samples
    flat = np.rint(wanted.start * rng.normal(0, 1, shape.parameters)).astype(np.int64).clip(-32768, 32767)
    orders, batch = [rng.permutation(samples) for _ in range(wanted.epochs)], wanted.batch or spec.batch
    frozen = in_grains(random_parameters(network, rng, wanted.gain), wanted.grain)
    frozen = threshold_parameters(network, wanted.scale, rng) if wanted.scale else frozen
    adapters = Adapters(shape, multiples(flat, wanted.grain))
    if wanted.ties:
        frozen, adapters = ties.tie_parameters(network, rng), ties.tie_adapters(shape, rng)
    drawn = _whole_samples if wanted.whole else samples_of
    job = TuningJob(
        frozen,
        adapters,
        drawn(network, spec.byte_inputs, samples + wanted.validated, rng),
        rng.integers(ties.WINNER + 1 if wanted.ties else 0, spec.labels, samples + wanted.validated),
        [[order[at : at + batch] for at in range(0, samples, batch)] for order in orders],
        wanted.rate,
        wanted.raw if wanted.raw in spec.raw_modes else spec.raw_modes[0],
        validation=np.arange(samples, samples + wanted.validated) if wanted.validated else None,
        patience=wanted.patience,
        logits=True,
    )
    return ShortJob(spec, job)


def _whole_samples(network: Network, byte_inputs: bool, samples: int, rng: np.random.Generator) -> Integers:
    ones = rng.integers(2, size=(samples, *network.input_shape))
    return ones * (255 if byte_inputs else 1 << Q8_16.fraction)


_DOUBLE_TIES = 6
"""Number of jobs with ties of gradients and of parameters; a job shows a fault in one bit of a lane in about half of
cases."""


class TuningTrials(Trials[InstantftSpec, TuningVariation]):
    """Stress tests of a core for adapters; without long jobs."""

    command: ClassVar[IntEnum] = Command.TUNE
    loads: ClassVar[tuple[IntEnum, ...]] = (Command.LOAD, Command.LOAD_ADAPTERS)

    def job(self, spec: InstantftSpec, seed: int, variation: TuningVariation) -> ShortJob:
        return short_tuning(spec, seed, variation)

    def short(self, spec: InstantftSpec) -> dict[str, TuningVariation]:
        found = {
            "base": TuningVariation(),
            "batches of one": TuningVariation(samples=3, batch=1),
            "clipped": TuningVariation(gain=60.0),
            "large": TuningVariation(gain=8.0, rate=131_071, start=12_000),
            # every second sum of products lies half-way between two numbers of Q8.16
            "halves": TuningVariation(samples=12, epochs=1, gain=2.0, start=3000, grain=HALF),
            "many": TuningVariation(samples=spec.cache_entries, epochs=3)
            if spec.cache_entries <= 64
            else TuningVariation(samples=60),
        }
        if spec.validation:
            found["validation"] = TuningVariation(epochs=4, validated=min(6, spec.cache_entries - 7), patience=1)
        return found | ({"raw": TuningVariation(raw=True, gain=4.0)} if True in spec.raw_modes else {})

    def random(self, spec: InstantftSpec, rng: np.random.Generator) -> TuningVariation:
        validated = int(rng.integers(1, 8)) if spec.validation else 0
        return TuningVariation(
            samples=min(spec.cache_entries - validated, 64),
            epochs=3,
            validated=validated,
            batch=int(rng.integers(1, spec.batch + 1)),
            gain=between(rng, 0.3, 30),
            rate=round(between(rng, 1, 131_071)),
            start=round(between(rng, 1, 30_000)),
            raw=bool(rng.integers(2)),
        )

    def edge(self, spec: InstantftSpec) -> dict[str, TuningVariation]:
        """Jobs with values at edges of rounding and of NF4.

        Many products with an NF4 level tie if the scales are multiples of a fraction of 1. Many gradients tie if raw
        activations are multiples of 1/32; parameters tie if the rate is a power of two. Other jobs combine the last two
        with gradients that have all their bits, or have logits at NF4 thresholds.
        """
        samples, wanted = min(spec.cache_entries, 64), dict[str, TuningVariation]()
        for raw in spec.raw_modes:
            epochs, grain = (10, HALF >> 4) if raw else (3, HALF)
            wanted["ties, raw" if raw else "ties"] = TuningVariation(
                samples=samples, epochs=epochs, batch=1, gain=2.0, rate=1 << 16, raw=raw, grain=grain, whole=True
            )
        if False in spec.raw_modes:
            wanted |= {f"threshold {scale}": TuningVariation(samples=1, scale=scale) for scale in threshold_scales()}
        if spec.loss == "cross_entropy" and spec.tunes == "adapters":
            both = TuningVariation(samples=1, epochs=1, batch=1, rate=ties.RATE, raw=True, ties=True)
            wanted |= {f"double ties {number}": both for number in range(_DOUBLE_TIES)}
        return wanted

    def usual(self, spec: InstantftSpec) -> dict[str, int]:
        jobs = {"epochs": 1, "samples_per_epoch": 1, "batch": 1, "rate": 1, "cache_entries": 1}
        return jobs | {"mode": int(spec.raw_modes[0])}

    def ends(self, spec: InstantftSpec, command: int, settings: Mapping[str, int]) -> Iterator[tuple[str, int]]:
        """The command that empties the cache may need no access to memory."""
        if command == Command.FORGET:
            yield "", 0

    def limits(self, spec: InstantftSpec) -> set[int]:
        return {3, spec.batch, spec.cache_entries, (1 << 17) - 1}

    def entries(self, spec: InstantftSpec) -> Iterator[Ending]:
        """Sample schedules with each bit of an index and of a label, in each word of a beat."""
        yield from batch_entries(Error, spec.labels, spec.batch, spec.cache_entries)


TRIALS = TuningTrials()
