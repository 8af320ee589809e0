"""Short fine-tuning jobs, with what golden makes of them: on hostile buses or with faults."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....golden.cores.instantft.instantft import InstantftSpec
from ....golden.fixed import Q8_16, Integers
from ....golden.lora.adapters import Adapters
from ....golden.models.network import Network
from ....golden.nn.arithmetic.random_parameters import random_parameters
from ...compiled.playing import ShortJob
from ...trials.draws import in_grains, multiples, samples_of
from . import ties
from .job import TuningJob
from .thresholds import threshold_parameters


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


def short_tuning(spec: InstantftSpec, seed: int, variation: TuningVariation | None = None) -> ShortJob:
    """Make a short fine-tuning of adapters, with logits.

    Parameters
    ----------
    spec : InstantftSpec
        The core.
    seed : int
        Seed of network, adapters, samples and order.
    variation : TuningVariation
    """
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
