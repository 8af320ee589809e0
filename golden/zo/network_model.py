"""Network on the array as a zeroth-order job's model: pre-trained parameters in Q4.12, in words of the array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import UserError
from ..fixed import Q4_12, Format, Integers, Narrower
from ..models.stages import after_cut
from ..nn.arithmetic.forward import StageIntegers, run
from ..nn.arithmetic.loss import Loss, labels_of
from ..nn.arithmetic.products import Product, product_of
from .job import ZerothOrderJob
from .mapping import PerturbationMapping


@dataclass(frozen=True, eq=False)
class NetworkPart:
    """Contiguous stages with their own perturbations, see `model.PerturbedPart`.

    `frozen` are the pre-trained parameters in Q4.12, (words, width); `product` is a matrix product.
    """

    mapping: PerturbationMapping
    frozen: Integers
    product: Product

    @property
    def words(self) -> int:
        return self.mapping.words

    @property
    def rows(self) -> Integers:
        """Rows of the deltas in the whole network."""
        return self.mapping.rows

    @property
    def offset_format(self) -> Format:
        return Q4_12

    def parameters(self, offsets: Integers) -> tuple[StageIntegers, ...]:
        """Parameters with offsets of all words, (words, n), saturated to Q4.12."""
        moved = self.frozen + offsets[:, np.arange(self.mapping.width) % offsets.shape[1]]
        return self.mapping.split(np.clip(moved, Q4_12.minimum, Q4_12.maximum))

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        stages_range = self.mapping.stages
        stages = after_cut(self.mapping.forward.network_stages[: stages_range.stop], stages_range.start)
        return run(stages, self.parameters(offsets), inputs, self.product, narrow)[-1]


class NetworkModel:
    """Network on the array with its pre-trained weights and biases, see `model.PerturbedModel`.

    `products` is the implementation of matrix products, "blas", "int64" or "torch"; all are exact.
    """

    def __init__(self, mapping: PerturbationMapping, frozen: Sequence[StageIntegers], products: str = "blas") -> None:
        self.mapping, self.frozen = mapping, tuple(frozen)
        self._product = product_of(products)
        self._parts: dict[int, tuple[NetworkPart, ...]] = {}

    def parts(self, cut: int) -> tuple[NetworkPart, ...]:
        """Both parts of the network cut before stage `cut`; for 0 the whole.

        Raises `UserError` if the cut is invalid, or the parameters do not have the stages' shapes.
        """
        if cut not in self._parts:
            check_cut(self.mapping, cut)
            self._parts[cut] = tuple(
                NetworkPart(part, part.flatten(self.frozen[part.stages.start : part.stages.stop]), self._product)
                for part in self.mapping.parts(cut)
            )
        return self._parts[cut]

    def label_count(self, loss: Loss) -> int:
        stages = self.mapping.forward.network_stages
        return labels_of(loss, self.mapping.forward.name, stages[0].inputs, stages[-1].biases)

    def check(self, inputs: Integers, labels: Integers) -> None:
        """Refuse a batch of wrong shape.

        Raises `UserError` if samples have another shape, or a label is missing.
        """
        name, shape = self.mapping.forward.name, self.mapping.forward.input_shape
        if inputs.shape[1:] != shape or len(labels) != len(inputs):
            raise UserError(f"a batch of {name} is n x {shape} with n labels, not {inputs.shape}, {labels.shape}")

    def tuned(self, job: ZerothOrderJob) -> tuple[StageIntegers, ...]:
        """Parameters with the deltas of a job on this model, Q4.12."""
        parts = zip(self.parts(job.settings.split.cut), job.offsets(), strict=True)
        return tuple(stage for part, offsets in parts for stage in part.parameters(offsets))


def check_cut(mapping: PerturbationMapping, cut: int) -> None:
    """Refuse a cut that a network does not have.

    Raises `UserError` if the cut is out of range, a later stage reads an earlier output, or words share rows of deltas.
    """
    stages = len(mapping.forward.stages)
    if cut and mapping.period:
        raise UserError(f"cut = {cut}: where words share rows of deltas, a network is not cut")
    if 0 < cut < stages:
        after_cut(mapping.forward.network_stages, cut)
    if not 0 <= cut < stages:
        raise UserError(f"cut = {cut}: {mapping.forward.name} of {stages} stages is cut at 0 to {stages - 1}")
