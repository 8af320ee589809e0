"""Random transformers, sentences and jobs for benches and self-tests of `zostream`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...axi.regions import Region
from ...fixed import Q8_16, Integers
from ...stream.forward_cache import CachedModel
from ...stream.frozen_base import frozen_base
from ...stream.machine.images import StreamImages
from ...stream.transformer_model import TransformerModel, padded
from ...transformer.blocks import SelfAttention
from ...transformer.builder import INPUTS, TransformerBuilder
from ...zo.deltas import PerturbationTable
from ...zo.job import ZerothOrderJob
from ...zo.memory_layout import StepOrder
from ...zo.step_settings import StepSettings
from .zostream import ZostreamSpec

NetworkKind = Literal["perceptron", "encoder", "decoder"]
RATE = 2e-3
"""Learning rate of a mean loss."""
_FEATURES, _WORDS, _CLASSES = 24, 20, 3


@dataclass(frozen=True)
class NetworkWidths:
    """Widths of a random network, and the depth of a perceptron.

    Parameters
    ----------
    features : int
        Values of a token.
    hidden : int
        Values between layers; some layers have a few more. 0 for the smallest number that the core allows.
    classes : int
        Outputs.
    further : int
        Number of layers that a perceptron has in addition to three.
    """

    features: int = _FEATURES
    hidden: int = 0
    classes: int = _CLASSES
    further: int = 0


NARROW = NetworkWidths()
"""Widths of the smallest networks, for most tests."""


class _Random(TransformerBuilder):
    """Builder with random tensors."""

    def __init__(self, name: str, rng: np.random.Generator, gain: float, widths: NetworkWidths) -> None:
        super().__init__(name, widths.features)
        self._rng, self._gain = rng, gain
        self.features, self.classes, self.further = widths.features, widths.classes, widths.further

    def drawn(self, *shape: int) -> NDArray[np.float64]:
        """Random matrix or vector."""
        drawn: NDArray[np.float64] = self._rng.normal(0, self._gain * shape[-1] ** -0.5, shape)
        return drawn

    def layer(self, title: str, read: int, outputs: int, inputs: int, bias: bool = True) -> int:
        """Add a fully connected layer."""
        return self.linear(title, read, self.drawn(outputs, inputs), self.drawn(outputs) if bias else None)

    def norm(self, title: str, read: int, features: int, centred: bool) -> int:
        """Add a layer norm, or an RMS norm."""
        factor = 1 + self.drawn(features)
        if centred:
            return self.layer_norm(title, read, factor, self.drawn(features), 1e-5)
        return self.rms_norm(title, read, factor, 1e-6)


def random_images(
    spec: ZostreamSpec,
    rng: np.random.Generator,
    kind: NetworkKind = "encoder",
    gain: float = 1.0,
    sensitive: int = 0,
    first: int = 0,
    cut: int = 0,
    every: int = 1,
    widths: NetworkWidths = NARROW,
) -> StreamImages:
    """Small random transformer for a core; the three kinds together cover all operations.

    Parameters
    ----------
    spec : ZostreamSpec
    rng : Generator
    kind : "perceptron", "encoder" or "decoder"
    gain : float
        Size of the tensors: from about 30 on most activations are clipped.
    sensitive : int
        Number of tuned weights of each matrix; 0 to tune all tensors whole.
    first : int
        First tuned operation.
    cut : int
        See `StreamImages.of`.
    every : int
        With `sensitive`: distance between matrices with tuned weights; other matrices have an empty list.
    widths : NetworkWidths
    """
    made = _Random(f"random {kind}", rng, gain, widths)
    # each of the heads that share keys fills whole rows
    hidden = widths.hidden or 2 * (spec.lanes if kind == "decoder" else max(8, spec.columns))
    {"perceptron": _perceptron, "encoder": _encoder, "decoder": _decoder}[kind](made, hidden)
    network, parameters = made.finish()
    matrices = [name for name in parameters if name[1] == "weight" and name[0] >= first]
    places = {
        name: np.sort(
            rng.choice(parameters[name].size, 0 if index % every else min(sensitive, parameters[name].size), False)
        )
        for index, name in enumerate(matrices if sensitive else [])
    }
    base = frozen_base(network, parameters, sensitive=places)
    model = TransformerModel(
        base.transformer,
        base.integers,
        Q8_16.from_float(rng.normal(0, 1, (_WORDS, widths.features))),
        (lambda name: name in places) if sensitive else (lambda name: name[0] >= first),
        places,
        spec.times,
        spec.lanes,
        spec.columns,
    )
    return StreamImages.of(model, base, spec.size, cut)


def random_sentences(
    images: StreamImages, count: int, longest: int, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Random sentences of 1 to `longest` tokens, (count, longest) padded with -1, and labels."""
    lengths = rng.integers(1, longest, count, endpoint=True)
    lengths[:2] = (1, longest)[:count]
    return sentences_of(images, lengths.tolist(), rng)


def sentences_of(images: StreamImages, lengths: Sequence[int], rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Random sentences of the given lengths, (count, longest) padded with -1, and labels."""
    sentences = padded([rng.integers(0, _WORDS, length) for length in lengths])
    return sentences, rng.integers(0, images.model.label_count("cross_entropy"), len(lengths))


def _perceptron(made: _Random, hidden: int) -> None:
    """Add three or more layers after the first token."""
    pooled = made.pool("first", INPUTS, "first")
    up = made.activation("relu", made.layer("up", pooled, hidden + 3, made.features), "relu")
    more = made.activation("gelu tanh", made.layer("more", up, hidden, hidden + 3), "gelu-tanh")
    for number in range(made.further):
        more = made.layer(f"further {number}", more, hidden, hidden)
    made.layer("head", more, made.classes, hidden)


def _encoder(made: _Random, hidden: int) -> None:
    """Add positions, a layer with norms after its sums, a mean of length 1 and a head."""
    rows = made.drawn(64, hidden)
    placed = made.positions("positions", made.layer("patches", INPUTS, hidden, made.features), rows)
    start = made.norm("norm 0", placed, hidden, True)
    reads = tuple(made.layer(name, start, hidden, hidden) for name in ("queries", "keys", "values"))
    seen = made.attention("attention", (reads[0], reads[1], reads[2]), SelfAttention(2, 2, hidden // 2))
    between = made.norm(
        "norm 1", made.residual("sum 1", start, made.layer("output", seen, hidden, hidden)), hidden, True
    )
    wide = made.activation("gelu", made.layer("up", between, 2 * hidden + 5, hidden), "gelu")
    total = made.residual("sum 2", between, made.layer("down", wide, hidden, 2 * hidden + 5))
    # the same functions as operations of their own, without a layer before them
    twice = made.norm("norm 3", made.residual("sum 3", made.norm("norm 2", total, hidden, True), start), hidden, True)
    pair = made.gate("pair", made.activation("alone", twice, "silu"), start)
    made.layer("head", made.unit_length("unit", made.pool("mean", pair, "mean")), made.classes, hidden)


def _decoder(made: _Random, hidden: int) -> None:
    """Add a causal layer with rotary positions, a shared head of keys, a gate, the last token and a head."""
    width = hidden // 2
    start = made.layer("embedding", INPUTS, hidden, made.features, False)
    normed = made.norm("norm 1", start, hidden, False)
    queries = made.layer("queries", normed, hidden, hidden, False)
    keys, values = (made.layer(name, normed, width, hidden, False) for name in ("keys", "values"))
    causal = SelfAttention(2, 1, width, causal=True, rotary_base=10_000.0)
    seen = made.attention("attention", (queries, keys, values), causal)
    middle = made.residual("sum 1", start, made.layer("output", seen, hidden, hidden, False))
    between = made.norm("norm 2", middle, hidden, False)
    gate = made.activation("silu", made.layer("gate", between, hidden + 7, hidden, False), "silu")
    product = made.gate("product", gate, made.layer("up", between, hidden + 7, hidden, False))
    total = made.residual("sum 2", middle, made.layer("down", product, hidden, hidden + 7, False))
    behind = made.layer("more", made.norm("norm 3", total, hidden, False), hidden, hidden)
    squared = made.activation("square", behind, "relu-squared")
    made.layer("head", made.pool("last", squared, "last"), made.classes, hidden)


class RandomJob:
    """Training of a random transformer on random sentences.

    Parameters
    ----------
    spec : ZostreamSpec
    images : StreamImages
        Network.
    rng : Generator
    samples, batch, steps, longest : int
        Numbers of sentences, of sentences in a step, of steps, of tokens in the longest sentence; the last step has one
        sentence less.
    **settings
        Arguments of `StepSettings`, except shift and rates, which follow from `RATE`.

    Attributes
    ----------
    layout : ZostreamLayout
    job : ZerothOrderJob
    sentences : array of int, (samples, longest)
    orders : list of StepOrder
    """

    def __init__(
        self,
        spec: ZostreamSpec,
        images: StreamImages,
        rng: np.random.Generator,
        samples: int,
        batch: int,
        steps: int,
        longest: int,
        position: int = 0,
        **settings: Any,
    ) -> None:
        self.spec, self.images, self.batch = spec, images, batch
        self.layout = spec.layout(images.program)
        self.sentences, labels = random_sentences(images, samples, longest, rng)
        sizes = [batch] * (steps - 1) + [max(batch - 1, 1)]
        rates, common = StepSettings(**settings).with_rates([RATE] * steps, sizes, PerturbationTable(spec.generator))
        drawn = [rng.integers(0, samples, size) for size in sizes]
        self.orders = [StepOrder(indices, labels[indices], rate) for indices, rate in zip(drawn, rates, strict=True)]
        model = CachedModel(images.model, images.cut) if images.cached else images.model
        self.job = ZerothOrderJob(model, spec.generator, common, position)

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions that the core reads: program, weights, index, samples; and the cache of the cut."""
        rows, lengths = self.images.model.rows_of(self.sentences)
        slots, *cache = self.layout.cache(lengths) if self.images.cut else (None,)
        samples = self.layout.samples(np.split(rows, np.cumsum(lengths)[:-1]), slots)
        return (*self.layout.network(self.images), *samples, *cache)

    def counts(self, orders: Sequence[StepOrder]) -> dict[str, int]:
        """Settings of sizes: alone they run the whole program, together with `training` they train."""
        return {"sample_count": len(self.sentences), "steps": len(orders), "batch": self.batch, "cached": 0}

    def training(self) -> dict[str, int]:
        """Settings of the next training command."""
        return {"position": self.job.position, **self.spec.step_registers(self.job.settings, self.images)}
