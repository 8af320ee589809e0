"""Forward cache: for each sample, the outputs of the operations below the first tuned tensor.

As in InstantFT, these outputs are the same for both sides of a step and in all epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from ..errors import UserError
from ..fixed import Q8_16, Format, Integers, Narrower
from ..nf4.codec import dequantise, quantise
from ..nn.arithmetic.loss import Loss
from .forward import TransformerIntegers
from .frozen_base import BLOCK
from .transformer_model import TransformerModel, masked

CacheKind = Literal["exact", "nf4"]
CACHES: tuple[CacheKind, ...] = get_args(CacheKind)


@dataclass(frozen=True, eq=False)
class CachedModel:
    """Model like `golden.zo.model.PerturbedModel` with cached outputs of the operations below `start`.

    An exact cache leaves all bits of a job unchanged. Saturations of cached operations count once per sample. Other
    members act as in `TransformerModel`. Raises `UserError` if `kind` or `start` is invalid, a tensor below `start` is
    tuned, or the values have no NF4 codes.

    Parameters
    ----------
    model : TransformerModel
        The whole model; no tensor below `start` is tuned.
    start : int
        First operation computed in each step. Later operations read only one earlier output, see
        `Transformer.crossing`.
    kind : "exact" or "nf4"
        Cached format: exact values, or NF4 codes with a scale for each 64 features of a token, see `golden.nf4.codec`.
    """

    model: TransformerModel
    start: int
    kind: CacheKind = "exact"
    _kept: dict[bytes, Integers] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        network = self.model.transformer.network
        if self.kind not in CACHES:
            raise UserError(f"cache = {self.kind!r} is not one of {', '.join(CACHES)}")
        crossing = network.crossing(self.start)
        if low := [name for name in self.model.order.places if name[0] < self.start]:
            raise network.error(low[0][0], f"is tuned, and the cache is before {network.titles[self.start]}")
        form = self.model.transformer.formats[crossing]
        if self.kind == "nf4" and form != Q8_16:
            raise network.error(crossing, f"gives {form}, which has no NF4 codes: take the exact cache")

    @cached_property
    def _above(self) -> TransformerModel:
        return replace(self.model, first=self.start)

    @cached_property
    def _below(self) -> TransformerModel:
        return replace(self.model, last=self.start)

    @property
    def words(self) -> int:
        return self._above.words

    @property
    def rows(self) -> Integers:
        return self._above.rows

    @property
    def offset_format(self) -> Format:
        return self._above.offset_format

    @property
    def samples(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of the cache: 3 per value, or half a byte per value and a 3-byte scale per block."""
        values = sum(cached.size for cached in self._kept.values())
        if self.kind == "exact":
            return int(3 * values)
        blocks = sum(len(cached) * -(-cached.shape[1] // BLOCK) for cached in self._kept.values())
        return int(-(-values // 2) + 3 * blocks)

    def parts(self, cut: int) -> tuple[CachedModel]:
        """The model itself, as its only part.

        Raises `UserError` if `cut` is not 0: a cached model is never cut.
        """
        if cut:
            raise UserError(f"cut = {cut}: a model with a forward cache is not cut")
        return (self,)

    def label_count(self, loss: Loss) -> int:
        return self.model.label_count(loss)

    def check(self, inputs: Integers, labels: Integers) -> None:
        self.model.check(inputs, labels)

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        return self.run(inputs, self._above.parameters(offsets), narrow)

    def run(self, inputs: Integers, parameters: TransformerIntegers, narrow: Narrower) -> Integers:
        """Outputs with these parameters above `start`, see `TransformerModel.run`."""
        keys = [
            sample[sample >= 0].tobytes() if self.model.embeddings is not None else sample.tobytes()
            for sample in inputs
        ]
        if new := {key: index for index, key in enumerate(keys) if key not in self._kept}:
            self._keep(list(new), inputs[list(new.values())], narrow)
        cached = [self._kept[key].astype(np.int64) for key in keys]
        pooled = cached[0].ndim == 1
        passed = np.stack(cached) if pooled else masked(np.concatenate(cached), tuple(map(len, cached)))
        return self._above.run(passed, parameters, narrow)

    def _keep(self, keys: list[bytes], inputs: Integers, narrow: Narrower) -> None:
        passed = self._below.run(inputs, self.model.frozen, narrow)
        for key, values in zip(keys, passed, strict=True):
            if values.ndim == 2:  # token rows, masked after a sentence's end
                values = np.asarray(values)[~np.ma.getmaskarray(values)[:, 0]]
            self._kept[key] = (_in_nf4(values) if self.kind == "nf4" else np.asarray(values)).astype(np.int32)


def _in_nf4(values: Integers) -> Integers:
    """Values after NF4 quantisation, in blocks of features; the last block may be shorter."""
    features = values.shape[-1]
    blocks = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -features % BLOCK)])
    decoded = dequantise(*quantise(blocks.reshape(*values.shape[:-1], -1, BLOCK)))
    return decoded.reshape(blocks.shape)[..., :features]
