"""Short jobs of transformers, with what golden makes of them: on hostile buses or with faults."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....golden.cores.zostream.random_network import NARROW, NetworkKind, NetworkWidths, random_images, sentences_of
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.rng.perturbation import POSITIONS
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.split import Split
from ....golden.zo.step_settings import StepSettings
from ...compiled.playing import ShortJob
from ..zeroth_order_job import TrainingJob


@dataclass(frozen=True, kw_only=True)
class StreamVariation:
    """Settings of a short zeroth-order job of a transformer.

    Parameters
    ----------
    kind, gain, sensitive, every, first, cut, widths
        Network, see `random_images`; cut below `first`, or there, what passes the cut is kept.
    lengths : tuple of int
        Tokens of each sentence; 0 is as many as both sides have room for.
    sizes : tuple of int
        Sentences of each step.
    perturbations, inner : int
        Of a step, or of its first part; of the part behind the cut for each of those.
    rate, shift, eps_shift, scalars
        See `StepOrder` and `StepSettings`.
    start : int
        Most of the deltas at the start; 0: there are none.
    late : bool
        The first perturbation is one of the generator's last, so that it begins again.
    """

    kind: NetworkKind = "encoder"
    gain: float = 1.0
    sensitive: int = 0
    every: int = 1
    first: int = 0
    cut: int = 0
    lengths: tuple[int, ...] = (1, 3, 5)
    sizes: tuple[int, ...] = (3, 1)
    perturbations: int = 1
    inner: int = 1
    rate: int = 40_000
    shift: int = 26
    eps_shift: int = 10
    scalars: bool = False
    start: int = 0
    late: bool = False
    widths: NetworkWidths = NARROW


def short_stream(spec: ZostreamSpec, seed: int, variation: StreamVariation | None = None) -> ShortJob:
    """Make a short zeroth-order training of a random transformer.

    Parameters
    ----------
    spec : ZostreamSpec
        The core.
    seed : int
        Seed of network, sentences, order, position and deltas.
    variation : StreamVariation
    """
    rng, wanted = np.random.default_rng(seed), variation or StreamVariation()
    images = random_images(
        spec,
        rng,
        wanted.kind,
        wanted.gain,
        wanted.sensitive,
        wanted.first,
        wanted.cut,
        wanted.every,
        wanted.widths,
    )
    most, count = images.program.capacity // 2, len(wanted.lengths)
    sentences, labels = sentences_of(images, [one or most for one in wanted.lengths], rng)
    drawn = [rng.permutation(np.resize(np.arange(count), size)) for size in wanted.sizes]
    steps = [StepOrder(one, labels[one], wanted.rate + number) for number, one in enumerate(drawn)]
    settings = StepSettings(
        eps_shift=wanted.eps_shift,
        shift=wanted.shift,
        split=Split(0 if images.cached else images.cut, wanted.perturbations, wanted.inner),
        scalars=wanted.scalars,
    )
    rows, period = len(images.model.rows), min(spec.generator.period, POSITIONS)
    position = period - 1 - int(rng.integers(rows)) if wanted.late else int(rng.integers(1000))
    integers = ZerothOrderJob(images.model, spec.generator, settings, position)
    if wanted.start:
        integers.total = rng.integers(-wanted.start, wanted.start, integers.total.shape, endpoint=True)
    return ShortJob(spec, TrainingJob(images, sentences, steps, settings, position, integers.rows))
