"""Forward cache of a transformer whose lower operations are frozen: what they give is kept, sample by sample.

InstantFT keeps the outputs of a frozen network for the training of adapters. By zeroth order the same holds below the
first tensor that is tuned: both sides of a step, and all epochs, read the same outputs.
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
    """Model as `golden.zo.model.PerturbedModel`, of which the operations from one on are tuned, and the others cached.

    With an exact cache a job has the same bits as without. Values of the lower operations that are clipped are counted
    once a sample, when they are computed.

    Parameters
    ----------
    model : TransformerModel
        The whole model; no tensor below `start` is tuned.
    start : int
        First operation that is computed in each step; all that it and later ones read of what is before is one
        operation's outputs, see `Transformer.crossing`.
    kind : "exact" or "nf4"
        Values as they are, or as codes with a scale for each 64 features of a token, `golden.nf4.codec`.

    Raises
    ------
    UserError
        If there is no such kind, the place is none, a tensor below it is tuned, or the values have no NF4 codes.
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
        """Words of a perturbation."""
        return self._above.words

    @property
    def rows(self) -> Integers:
        """Rows of the deltas."""
        return self._above.rows

    @property
    def offset_format(self) -> Format:
        """Format of the offsets."""
        return self._above.offset_format

    @property
    def samples(self) -> int:
        """Samples that are kept."""
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes that these take: 3 a value, or half a byte and a scale of 3 for each block."""
        values = sum(one.size for one in self._kept.values())
        if self.kind == "exact":
            return int(3 * values)
        blocks = sum(len(one) * -(-one.shape[1] // BLOCK) for one in self._kept.values())
        return int(-(-values // 2) + 3 * blocks)

    def parts(self, cut: int) -> tuple[CachedModel]:
        """Return the model as its only part.

        Raises
        ------
        UserError
            If it is cut.
        """
        if cut:
            raise UserError(f"cut = {cut}: a model with a forward cache is not cut")
        return (self,)

    def labels(self, loss: Loss) -> int:
        """Count the labels that a sample can have."""
        return self.model.labels(loss)

    def check(self, inputs: Integers, labels: Integers) -> None:
        """Refuse a batch that is not the model's."""
        self.model.check(inputs, labels)

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        """Compute the outputs with offsets added to the parameters, as `TransformerModel.forward` does."""
        return self.run(inputs, self._above.parameters(offsets), narrow)

    def run(self, inputs: Integers, parameters: TransformerIntegers, narrow: Narrower) -> Integers:
        """Compute the outputs with these parameters, as `TransformerModel.run` does; below `start` they are frozen."""
        keys = [one[one >= 0].tobytes() if self.model.embeddings is not None else one.tobytes() for one in inputs]
        if new := {key: at for at, key in enumerate(keys) if key not in self._kept}:
            self._keep(list(new), inputs[list(new.values())], narrow)
        found = [self._kept[key].astype(np.int64) for key in keys]
        pooled = found[0].ndim == 1
        passed = np.stack(found) if pooled else masked(np.concatenate(found), tuple(map(len, found)))
        return self._above.run(passed, parameters, narrow)

    def _keep(self, keys: list[bytes], inputs: Integers, narrow: Narrower) -> None:
        """Compute and keep what passes of samples."""
        passed = self._below.run(inputs, self.model.frozen, narrow)
        for key, values in zip(keys, passed, strict=True):
            if values.ndim == 2:  # rows of tokens, masked behind the last one
                values = np.asarray(values)[~np.ma.getmaskarray(values)[:, 0]]
            self._kept[key] = (_in_nf4(values) if self.kind == "nf4" else np.asarray(values)).astype(np.int32)


def _in_nf4(values: Integers) -> Integers:
    """Values as NF4 gives them back, in blocks of features; the last one may be shorter."""
    features = values.shape[-1]
    blocks = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -features % BLOCK)])
    found = dequantise(*quantise(blocks.reshape(*values.shape[:-1], -1, BLOCK)))
    return found.reshape(blocks.shape)[..., :features]
