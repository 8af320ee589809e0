"""Short zeroth-order jobs, with what golden makes of them: on hostile buses or with faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import Integers
from ....golden.nn.arithmetic.random_parameters import random_parameters
from ....golden.rng.perturbation import POSITIONS
from ....golden.zo.coefficient import RATE
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.split import WHOLE, Split
from ....golden.zo.step_settings import StepSettings
from ...compiled.playing import ShortJob
from ...trials.draws import HALF, in_grains, samples_of
from ..zeroth_order_job import TrainingJob


@dataclass(frozen=True, kw_only=True)
class TrainingVariation:
    """Settings of a short zeroth-order job.

    Parameters
    ----------
    samples : int
        How many there are.
    sizes : tuple of int
        Samples of each step.
    gain : float
        Size of the network's parameters: from about 50 most activations are clipped.
    rate, shift, eps_shift, split, scalars
        See `ZerothOrderJob` and `StepSettings`.
    start : int
        Most of the deltas at the start; 0: there are none.
    grain : int
        Deltas at the start are multiples of it.
    late : bool
        The first perturbation is one of the generator's last, so that it begins again.
    halves : bool
        All parameters of the network are multiples of a half: of the inference without deltas, every second sum of
        products lies half-way between two numbers of Q8.16.
    near : tuple of int
        Magnitudes of the steps' coefficients, in turn, by a rate of its own for each step, as far as there is one: for
        steps with one perturbation. With none of them the rates of the steps follow `rate`.
    """

    samples: int = 6
    sizes: tuple[int, ...] = (4, 1, 3)
    gain: float = 1.0
    rate: int = 40_000
    shift: int = 24
    eps_shift: int = 10
    split: Split = WHOLE
    scalars: bool = False
    start: int = 0
    grain: int = 1
    late: bool = False
    halves: bool = False
    near: tuple[int, ...] = ()


def short_training(spec: ZotrainSpec, seed: int, variation: TrainingVariation | None = None) -> ShortJob:
    """Make a short zeroth-order training of a network.

    Parameters
    ----------
    spec : ZotrainSpec
        The core.
    seed : int
        Seed of network, samples, order, position and deltas.
    variation : TrainingVariation
    """
    rng, wanted = np.random.default_rng(seed), variation or TrainingVariation()
    network, samples, period = spec.described, wanted.samples, min(spec.source.period, POSITIONS)
    labels = rng.integers(0, spec.labels, samples)
    drawn = [rng.integers(0, samples, size) for size in wanted.sizes]
    position = int(rng.integers(1000))
    settings = StepSettings(
        eps_shift=wanted.eps_shift, shift=wanted.shift, split=wanted.split, scalars=wanted.scalars, loss=spec.loss
    )
    frozen = random_parameters(network, rng, wanted.gain)
    frozen = in_grains(frozen, HALF if wanted.halves else 1)
    inputs = samples_of(network, spec.byte_inputs, samples, rng)
    steps = [StepOrder(one, labels[one], wanted.rate + number) for number, one in enumerate(drawn)]
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
    """Give each step the rate with which its coefficient is, in turn, one of these magnitudes, as near as can be."""
    found = []
    for number, step in enumerate(steps):
        position, given = golden.position, (values[step.indices], step.labels)
        (slope,) = golden.step(*given, rate=0)  # moves nothing
        rate = round((near[number % len(near)] << golden.settings.shift) / max(abs(slope.difference), 1))
        found.append(replace(step, rate=min(max(rate, 1), RATE.maximum)))
        golden.position = position
        golden.step(*given, found[-1].rate)
    return found
