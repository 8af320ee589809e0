"""Vision transformer trained on digits before the drift; in integers, so with the same bytes on every machine.

The layers stay random; the head learns from the layers' outputs, as in `example.digits`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.datasets.dataset import Samples
from ....golden.fixed import Q4_12, Integers, Narrower, q8_16_of_bytes
from ....golden.stream.frozen_base import FrozenBase, frozen_base
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.transformer_model import TransformerModel
from ....golden.transformer.sample_model import vit_digits
from ...example.digits import learnt_head


class DigitsTransformer:
    """The preset `vit-digits` with random layers, for a core."""

    def __init__(self, spec: ZostreamSpec) -> None:
        self._spec, self._samples = spec, vit_digits(seed=1)
        self._head = len(self._samples.network.operations) - 1

    @property
    def classes(self) -> int:
        return self._samples.classes

    def rows(self, some: Samples) -> Integers:
        """Token rows of images: (n, tokens, features) in Q8.16."""
        rows: Integers = self._samples.rows(q8_16_of_bytes(some.inputs))
        return rows

    def images(self) -> StreamImages:
        """Images of the network for the core; a `UserError` if the core is too small."""
        images = StreamImages.of(*self._model(), self._spec.size)
        self._spec.check(images)
        self._spec.check_lengths(images, [self._samples.tokens])
        return images

    def _model(self) -> tuple[TransformerModel, FrozenBase]:
        spec, samples = self._spec, self._samples
        base = frozen_base(samples.network, samples.parameters)
        model = TransformerModel(
            base.transformer, base.integers, times=spec.times, lanes=spec.lanes, columns=spec.columns
        )
        return model, base

    def learn(self, some: Samples) -> None:
        """Train the head on samples."""
        (model, _), rng = self._model(), np.random.default_rng(1)
        features = replace(model, last=self._head).run(self.rows(some), model.frozen, Narrower())
        learnt = learnt_head(features, some.labels, self.classes, rng)
        parameters = dict(self._samples.parameters)
        for name, values in zip(("weight", "bias"), learnt, strict=True):
            parameters[self._head, name] = Q4_12.to_float(values).astype(np.float32)
        self._samples = replace(self._samples, parameters=parameters)
