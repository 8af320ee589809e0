"""Short random jobs on both cores and a long one, with what golden makes of them: on hostile buses or with faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...boards.cores.instantft.job import FineTuner
from ...boards.cores.zotrain.job import ZerothOrderTrainer
from ...boards.host.driver import Core
from ...golden.cores.instantft.instantft import InstantftSpec
from ...golden.cores.zotrain.registers import CORE as TRAINING_CORE
from ...golden.cores.zotrain.zotrain import ZotrainSpec
from ...golden.fixed import Q4_12, Q8_16, Integers
from ...golden.lora.adapters import Adapters
from ...golden.lora.images import adapters_image
from ...golden.models.network import Network
from ...golden.nn.arithmetic.forward import StageIntegers
from ...golden.nn.arithmetic.random_parameters import random_parameters
from ...golden.rng.perturbation import POSITIONS
from ...golden.zo.coefficient import LARGEST_BATCH, RATE
from ...golden.zo.deltas import DELTA
from ...golden.zo.memory_layout import StepOrder
from ...golden.zo.scalars import LARGEST
from ...golden.zo.split import MOST_PERTURBATIONS, MOST_SLOPES, WHOLE, Split
from ...golden.zo.step_settings import StepSettings
from ..compiled.comparison import values_of
from ..compiled.device import SimulatedDevice
from ..cores.instantft import ties
from ..cores.instantft.job import TuningJob
from ..cores.instantft.thresholds import threshold_parameters, threshold_scales
from ..cores.zotrain.job import TrainingJob, counts_of, same, wrong_counts

_DROPPED = 1 << (DELTA.fraction - Q4_12.fraction)
"""Unit of an offset, in that of the deltas from which it is rounded."""

LONG = 1 << 13
"""Steps beyond which a job is long: about 1,000 cycles each with a network for trials, half a minute in all."""
_HALF = 1 << Q4_12.fraction - 1
_DOUBLE_TIES = 6
"""Jobs with ties of gradients and of parameters: each shows a bit of one lane at about every second try."""
_NEAR_SCALARS = tuple(near + step for near in (LARGEST, 2 * LARGEST + 1) for step in range(-3, 4))
"""Magnitudes of coefficients around those from which a common shift is one more."""


@dataclass(frozen=True, kw_only=True)
class TuningVariation:
    """Settings of a short fine-tuning job.

    Parameters
    ----------
    samples, epochs : int
        How many.
    batch : int
        Samples of a batch; 0: as many as the core has room for.
    gain : float
        Size of the network's parameters: from about 50 most values are clipped.
    rate : int
        Learning rate of a sample, `golden.lora.adapters.rate_of`.
    start : int
        Standard deviation of the adapters at the start, in units of 2**-12.
    raw : bool
        The cache holds Q8.16, where the core can have it so or otherwise.
    grain : int
        Parameters of network and adapters are multiples of it, in units of 2**-12.
    whole : bool
        All inputs are 0 or 1: of a coarse grain activations have few bits, too.
    scale : int
        The logits of the frozen network lie at the thresholds of this scale of NF4, see `thresholds`; 0: anywhere.
    ties : bool
        With a first batch of one sample and the rate of `ties`, many gradients lie half-way between two numbers, and
        then the parameters that they update.
    validated : int
        Samples behind those, which are run behind each epoch and not learnt from.
    patience : int
        Losses in a row, none of them the smallest, that end the job; 0: any number.
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


class ShortTuning:
    """Fine-tuning of adapters, with logits.

    Parameters
    ----------
    spec : InstantftSpec
        The core.
    seed : int
        Seed of network, adapters, samples and order.
    variation : TuningVariation

    Attributes
    ----------
    counts : dict of str to int
        The core's counters at the end.
    """

    def __init__(self, spec: InstantftSpec, seed: int, variation: TuningVariation | None = None) -> None:
        rng, wanted = np.random.default_rng(seed), variation or TuningVariation()
        network, shape, samples = spec.described, spec.mapping.shape, wanted.samples
        flat = np.rint(wanted.start * rng.normal(0, 1, shape.parameters)).astype(np.int64).clip(-32768, 32767)
        orders, batch = [rng.permutation(samples) for _ in range(wanted.epochs)], wanted.batch or spec.batch
        frozen = _in_grains(random_parameters(network, rng, wanted.gain), wanted.grain)
        frozen = threshold_parameters(network, wanted.scale, rng) if wanted.scale else frozen
        adapters = Adapters(shape, _multiples(flat, wanted.grain))
        if wanted.ties:
            frozen, adapters = ties.tie_parameters(network, rng), ties.tie_adapters(shape, rng)
        drawn = _whole_samples if wanted.whole else _samples
        self.spec = spec
        self.job = TuningJob(
            frozen,
            adapters,
            drawn(network, spec.byte_inputs, samples + wanted.validated, rng),
            rng.integers(ties.WINNER + 1 if wanted.ties else 0, spec.labels, samples + wanted.validated),
            [[order[at : at + batch] for at in range(0, samples, batch)] for order in orders],
            wanted.rate,
            wanted.raw if wanted.raw in spec.raw_modes else spec.raw_modes[0],
            validation=np.arange(samples, samples + wanted.validated) if wanted.validated else None,
            patience=wanted.patience,
        )
        golden = self.job.golden(spec)
        batches, images = [], []
        for one in self.job.run_golden(spec, golden):
            batches.append(one)
            images.append(adapters_image(spec.mapping, golden.adapters))
        self._images, self._logits = np.stack(images), np.concatenate([one.logits for one in batches])
        self.counts = self.job.counts(spec, golden, batches)
        self._adapters = golden.adapters.flat.copy()
        self._outputs = golden.logits(values_of(spec, self.job.inputs))

    def driver(self, device: SimulatedDevice) -> FineTuner:
        """Make a host driver of the core."""
        core = Core(self.spec.registers, device, device, device.interrupt)
        return FineTuner(core, self.spec, len(self.job.inputs), self.job.raw)

    def load(self, driver: FineTuner) -> None:
        """Load the frozen network; nothing is in the cache any more."""
        driver.load(self.job.frozen)
        driver.forget()

    def differences(self, driver: FineTuner, device: SimulatedDevice) -> list[str]:
        """Run the job from its adapters, and list what differs from golden."""
        driver.load_adapters(self.job.adapters)
        before = device.simulated
        tuned, traced = self.job.tune(driver, device, logits=True)
        right = {
            "cycles": 0 < tuned.finished.cycles < device.simulated - before,
            "adapters of a batch": np.array_equal(traced, self._images),
            "logits": np.array_equal(np.asarray(tuned.logits), self._logits),
            "counters": not wrong_counts(tuned.finished, self.counts),
            "adapters": np.array_equal(driver.adapters().flat, self._adapters),
            "outputs": np.array_equal(driver.logits(self.job.inputs), self._outputs),
        }
        driver.forget()
        return [name for name, one in right.items() if not one]


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


class ShortTraining:
    """Zeroth-order training in a few steps.

    Parameters
    ----------
    spec : ZotrainSpec
        The core.
    seed : int
        Seed of network, samples, order, position and deltas.
    variation : TrainingVariation

    Attributes
    ----------
    counts : dict of str to int
        The core's counters at the end.
    """

    def __init__(self, spec: ZotrainSpec, seed: int, variation: TrainingVariation | None = None) -> None:
        rng, wanted = np.random.default_rng(seed), variation or TrainingVariation()
        network, samples, period = spec.described, wanted.samples, min(spec.source.period, POSITIONS)
        labels = rng.integers(0, spec.labels, samples)
        drawn = [rng.integers(0, samples, size) for size in wanted.sizes]
        position = int(rng.integers(1000))
        settings = StepSettings(
            eps_shift=wanted.eps_shift, shift=wanted.shift, split=wanted.split, scalars=wanted.scalars, loss=spec.loss
        )
        frozen = random_parameters(network, rng, wanted.gain)
        frozen = _in_grains(frozen, _HALF if wanted.halves else 1)
        inputs = _samples(network, spec.byte_inputs, samples, rng)
        steps = [StepOrder(one, labels[one], wanted.rate + number) for number, one in enumerate(drawn)]
        position = period - 1 - position % 100 if wanted.late else position
        self.spec = spec
        self.job = TrainingJob(frozen, inputs, steps, settings, position)
        if wanted.start:
            total = self.job.golden(spec).total
            most = wanted.start // wanted.grain
            deltas = wanted.grain * rng.integers(-most, most, total.shape, endpoint=True)
            self.job = replace(self.job, deltas=deltas)
        if wanted.near:
            self.job = replace(self.job, steps=_with_rates(spec, self.job, wanted.near))
        golden = self.job.golden(spec)
        self._start = golden.rows
        self._steps, images = [], []
        for step in self.job.run_golden(spec, golden):
            self._steps += step
            images.append(spec.layout.deltas(golden.rows).image)
        self._images = np.stack(images)
        self.counts = counts_of(golden, len(self.job.steps))
        self._rows = golden.rows
        self._outputs = golden.logits(values_of(spec, self.job.inputs))

    def driver(self, device: SimulatedDevice) -> ZerothOrderTrainer:
        """Make a host driver of the core."""
        return ZerothOrderTrainer(Core(TRAINING_CORE, device, device, device.interrupt), self.spec)

    def load(self, driver: ZerothOrderTrainer) -> None:
        """Load the pre-trained network."""
        driver.load(self.job.frozen)

    def differences(self, driver: ZerothOrderTrainer, device: SimulatedDevice) -> list[str]:
        """Run the job from its deltas, and list what differs from golden."""
        driver.load_deltas(self._start)
        before = device.simulated
        trained, traced = self.job.train(driver, device)
        slopes = trained.slopes
        right = {
            "cycles": 0 < trained.finished.cycles < device.simulated - before,
            "deltas of a step": np.array_equal(traced, self._images),
            "records": len(slopes) == len(self._steps) and all(map(same, slopes, self._steps)),
            "counters": not wrong_counts(trained.finished, self.counts),
            "deltas": np.array_equal(driver.deltas(), self._rows),
            "outputs": np.array_equal(driver.logits(self.job.inputs), self._outputs),
        }
        return [name for name, one in right.items() if not one]


def short_jobs(spec: InstantftSpec | ZotrainSpec, seed: int = 1) -> dict[str, ShortTuning | ShortTraining]:
    """Make jobs that together reach every part of a core, by name.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
        The core.
    seed : int
    """
    if isinstance(spec, InstantftSpec):
        return {name: ShortTuning(spec, seed + at, one) for at, (name, one) in enumerate(_tunings(spec).items())}
    return {name: ShortTraining(spec, seed + at, one) for at, (name, one) in enumerate(_trainings(spec).items())}


def _tunings(spec: InstantftSpec) -> dict[str, TuningVariation]:
    found = {
        "base": TuningVariation(),
        "batches of one": TuningVariation(samples=3, batch=1),
        "clipped": TuningVariation(gain=60.0),
        "large": TuningVariation(gain=8.0, rate=131_071, start=12_000),
        # every second sum of products lies half-way between two numbers of Q8.16
        "halves": TuningVariation(samples=12, epochs=1, gain=2.0, start=3000, grain=_HALF),
        "many": TuningVariation(samples=spec.cache_entries, epochs=3)
        if spec.cache_entries <= 64
        else TuningVariation(samples=60),
    }
    if spec.validation:
        found["validation"] = TuningVariation(epochs=4, validated=min(6, spec.cache_entries - 7), patience=1)
    return found | ({"raw": TuningVariation(raw=True, gain=4.0)} if True in spec.raw_modes else {})


def _trainings(spec: ZotrainSpec) -> dict[str, TrainingVariation]:
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
    stages = len(spec.mapping.forward.stages) if spec.cut_rows else 1
    for cut in range(1, stages):
        most = min(spec.kept_samples(cut), 4)
        if most:
            sizes = (most, max(most - 1, 1))
            found[f"cut {cut}"] = TrainingVariation(sizes=sizes, split=Split(cut, 2, 3), gain=4.0, scalars=cut % 2 == 0)
            found[f"cut {cut}, 16 and 4"] = TrainingVariation(sizes=(1,), split=Split(cut, 16, 4), eps_shift=8)
    return found


def random_jobs(spec: InstantftSpec | ZotrainSpec, seed: int, count: int) -> dict[str, ShortTuning | ShortTraining]:
    """Make jobs with random settings and more data, for what only rare values show.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
        The core.
    seed : int
        Of the settings, and of each job.
    count : int
        How many.
    """
    rng = np.random.default_rng([seed, count])
    found: dict[str, ShortTuning | ShortTraining] = {}
    for number in range(count):
        name, own = f"random {number}", seed + 1000 + number
        if isinstance(spec, InstantftSpec):
            found[name] = ShortTuning(spec, own, _random_tuning(spec, rng))
        else:
            found[name] = ShortTraining(spec, own, _random_training(spec, rng))
    return found


def edge_jobs(spec: InstantftSpec | ZotrainSpec, seed: int) -> dict[str, ShortTuning | ShortTraining]:
    """Make tuning jobs whose values lie at edges of rounding and of NF4, for what random values rarely show.

    With scales that are multiples of a part of 1, many products with a level of NF4 lie half-way between two numbers;
    with raw activations that are multiples of 1/32, many gradients; with a power of two as the rate, parameters. In
    other jobs both do at once, beside gradients with all their bits, or the logits lie at thresholds of NF4. Of
    training there is none.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
        The core.
    seed : int
    """
    if not isinstance(spec, InstantftSpec):
        return {}
    samples, wanted = min(spec.cache_entries, 64), dict[str, TuningVariation]()
    for raw in spec.raw_modes:
        epochs, grain = (10, _HALF >> 4) if raw else (3, _HALF)
        wanted["ties, raw" if raw else "ties"] = TuningVariation(
            samples=samples, epochs=epochs, batch=1, gain=2.0, rate=1 << 16, raw=raw, grain=grain, whole=True
        )
    if False in spec.raw_modes:
        wanted |= {f"threshold {scale}": TuningVariation(samples=1, scale=scale) for scale in threshold_scales()}
    if spec.loss == "cross_entropy" and spec.tunes == "adapters":
        both = TuningVariation(samples=1, epochs=1, batch=1, rate=ties.RATE, raw=True, ties=True)
        wanted |= {f"double ties {number}": both for number in range(_DOUBLE_TIES)}
    return {name: ShortTuning(spec, seed + at, one) for at, (name, one) in enumerate(wanted.items())}


def long_jobs(spec: InstantftSpec | ZotrainSpec, seed: int) -> dict[str, ShortTuning | ShortTraining]:
    """Make a training job of more than `LONG` steps, for counters and addresses; of tuning there is none.

    Parameters
    ----------
    spec : InstantftSpec or ZotrainSpec
        The core.
    seed : int
    """
    if isinstance(spec, InstantftSpec):
        return {}
    return {"long": ShortTraining(spec, seed, TrainingVariation(samples=2, sizes=(1,) * (LONG + 1), shift=30))}


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number between two of any size: each doubling is as likely as another."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _random_tuning(spec: InstantftSpec, rng: np.random.Generator) -> TuningVariation:
    validated = int(rng.integers(1, 8)) if spec.validation else 0
    return TuningVariation(
        samples=min(spec.cache_entries - validated, 64),
        epochs=3,
        validated=validated,
        batch=int(rng.integers(1, spec.batch + 1)),
        gain=_between(rng, 0.3, 30),
        rate=round(_between(rng, 1, 131_071)),
        start=round(_between(rng, 1, 30_000)),
        raw=bool(rng.integers(2)),
    )


def _random_training(spec: ZotrainSpec, rng: np.random.Generator) -> TrainingVariation:
    cuts = [cut for cut in range(1, len(spec.mapping.forward.stages)) if spec.cut_rows and spec.kept_samples(cut)]
    cut = int(rng.choice([0, *cuts]))
    first = int(rng.integers(1, 1 + (MOST_PERTURBATIONS if rng.integers(2) else 2)))
    second = int(rng.integers(1, 1 + min(MOST_PERTURBATIONS, MOST_SLOPES // first))) if cut else 1
    most = min(16, spec.kept_samples(cut)) if cut else 16
    return TrainingVariation(
        samples=40,
        sizes=tuple(int(size) for size in rng.integers(1, 1 + most, 8 if first * second < 8 else 2)),
        split=Split(cut, first, second),
        scalars=bool(rng.integers(2)),
        gain=_between(rng, 0.3, 30),
        rate=round(_between(rng, 1, 65_535)),
        shift=int(rng.integers(14, 34)),
        eps_shift=int(rng.integers(4, 12, endpoint=True)),
        start=round(_between(rng, 1, DELTA.maximum)),
    )


def _with_rates(spec: ZotrainSpec, job: TrainingJob, near: Sequence[int]) -> list[StepOrder]:
    """Give each step the rate with which its coefficient is, in turn, one of these magnitudes, as near as can be."""
    golden, values, steps = job.golden(spec), values_of(spec, job.inputs), []
    for number, step in enumerate(job.steps):
        position, given = golden.position, (values[step.indices], step.labels)
        (slope,) = golden.step(*given, rate=0)  # moves nothing
        rate = round((near[number % len(near)] << job.settings.shift) / max(abs(slope.difference), 1))
        steps.append(replace(step, rate=min(max(rate, 1), RATE.maximum)))
        golden.position = position
        golden.step(*given, steps[-1].rate)
    return steps


def _in_grains(frozen: Sequence[StageIntegers], grain: int) -> list[StageIntegers]:
    return [StageIntegers(_multiples(one.weight, grain), _multiples(one.bias, grain)) for one in frozen]


def _multiples(parameters: Integers, grain: int) -> Integers:
    """Round parameters in Q4.12 to multiples of a power of two."""
    return (grain * np.rint(parameters / grain)).astype(np.int64).clip(Q4_12.minimum, Q4_12.maximum + 1 - grain)


def _samples(network: Network, byte_inputs: bool, samples: int, rng: np.random.Generator) -> Integers:
    shape = (samples, *network.input_shape)
    return rng.integers(0, 256, shape) if byte_inputs else rng.integers(-90_000, 90_000, shape)


def _whole_samples(network: Network, byte_inputs: bool, samples: int, rng: np.random.Generator) -> Integers:
    ones = rng.integers(2, size=(samples, *network.input_shape))
    return ones * (255 if byte_inputs else 1 << Q8_16.fraction)
