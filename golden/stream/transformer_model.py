"""Transformer as the model of a zeroth-order job: frozen parameters, and offsets of the tuned ones in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..errors import UserError
from ..fixed import Format, Integers, Narrower, shifted
from ..nn.arithmetic.loss import Loss, labels_of
from ..nn.arithmetic.products import PRODUCTS, Product
from ..zo.deltas import DELTA
from .forward import IntegerTransformer, TransformerIntegers
from .words import TensorName, TensorWords


def everything(name: TensorName) -> bool:
    """Tune all tensors."""
    return True


@dataclass(frozen=True, eq=False)
class TransformerModel:
    """Transformer with its frozen parameters, see `golden.zo.model.PerturbedModel`; it has one part.

    Parameters
    ----------
    transformer : IntegerTransformer
    frozen : mapping
        From `IntegerTransformer.convert`.
    embeddings : array of int, (vocabulary, features), optional
        Q8.16. With them a sample is a sentence's tokens.
    tuned : callable
        Whether a tensor is perturbed.
    times : int
        Words after which deltas return, see `golden.zo.deltas`; 0 where each word has its own.
    lanes, columns : int
        Size of a tile.
    product : callable
        One of `PRODUCTS`.
    """

    transformer: IntegerTransformer
    frozen: TransformerIntegers
    embeddings: Integers | None = None
    tuned: Callable[[TensorName], bool] = everything
    times: int = 0
    lanes: int = 32
    columns: int = 16
    product: Product = field(default=PRODUCTS["blas"])

    @cached_property
    def order(self) -> TensorWords:
        """Words of the tuned tensors, in the order of their use; of an operation its bias comes first."""
        shapes = self.transformer.network.parameter_shapes
        names = sorted((name for name in shapes if self.tuned(name)), key=lambda name: (name[0], name[1] != "bias"))
        return TensorWords({name: shapes[name] for name in names}, self.lanes, self.columns)

    @property
    def words(self) -> int:
        """Words of a perturbation."""
        return self.order.words

    @property
    def all_rows(self) -> int:
        """Rows of the deltas."""
        return min(self.times, self.words) or self.words

    @property
    def rows(self) -> Integers:
        """Rows of the deltas of the words, or of as many as return."""
        return np.arange(self.all_rows)

    @property
    def offset_format(self) -> Format:
        """Format of the offsets: that of deltas, as each tensor rounds them to its own."""
        return DELTA

    def parts(self, cut: int) -> tuple[TransformerModel]:
        """Return the model as its only part.

        Raises
        ------
        UserError
            If it is cut.
        """
        if cut:
            raise UserError(f"cut = {cut}: a transformer is not cut")
        return (self,)

    def labels(self, loss: Loss) -> int:
        """Count the labels that a sample can have, see `labels_of`.

        Raises
        ------
        UserError
            If the network gives outputs for each token.
        """
        network = self.transformer.network
        outputs, pooled = network.shapes[-1]
        if not pooled:
            raise UserError(f"{network.name} gives outputs for each token: it needs a pooling and a head")
        return labels_of(loss, network.name, network.features, outputs)

    def check(self, inputs: Integers, labels: Integers) -> None:
        """Refuse a batch that is not the model's.

        Raises
        ------
        UserError
            If samples are of another form, a sentence is empty or too long, or labels are missing.
        """
        if len(labels) != len(inputs):
            raise UserError(f"{len(labels)} labels for {len(inputs)} samples")
        self._rows(inputs)

    def _rows(self, inputs: Integers) -> tuple[Integers, tuple[int, ...]]:
        """Rows of all samples, and how many each has."""
        network = self.transformer.network
        if self.embeddings is None:
            if inputs.ndim != 3 or inputs.shape[2] != network.features:
                raise UserError(f"{network.name} takes n x tokens x {network.features} values, not {inputs.shape}")
            lengths = (inputs.shape[1],) * len(inputs)
            network.check_lengths(lengths)
            return inputs.reshape(-1, network.features), lengths
        if inputs.ndim != 2 or (inputs >= len(self.embeddings)).any():
            raise UserError(f"{network.name} takes n x tokens from 0 to {len(self.embeddings) - 1}, not {inputs.shape}")
        there = inputs >= 0
        if (there[:, 1:] & ~there[:, :-1]).any():
            raise UserError(f"{network.name} takes sentences whose tokens are neighbours")
        lengths = tuple(map(int, there.sum(axis=1)))
        network.check_lengths(lengths)
        return self.embeddings[inputs[there]], lengths

    def parameters(self, offsets: Integers) -> TransformerIntegers:
        """Parameters with offsets of all words, (words, n), rounded once half to even, and saturated."""
        moved = dict(self.frozen)
        for name, place in self.order.places.items():
            form = self.transformer.format_of(name)
            rounded = shifted(offsets[place.start : place.stop], np.array(DELTA.fraction - form.fraction))
            moved[name] = np.clip(self.frozen[name] + self.order.gathered(name, rounded), form.minimum, form.maximum)
        return moved

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        """Compute the outputs with offsets added to the parameters.

        Parameters
        ----------
        inputs : array of int, (samples, tokens) or (samples, tokens, features)
            Tokens, with -1 behind a sentence's last one; without embeddings rows in Q8.16.
        offsets : array of int, (words, n)
            In `offset_format`.
        narrow : Narrower
            Counts the values that are clipped.

        Returns
        -------
        array of int64, (samples, classes)
            Q8.16.
        """
        rows, lengths = self._rows(inputs)
        outputs, saturations = self.transformer.run(self.parameters(offsets), rows, lengths, self.product)
        narrow.saturations += sum(saturations)
        return outputs[-1]


def padded(sentences: list[Integers]) -> Integers:
    """Sentences of tokens as one array, with -1 behind the last token of each."""
    found = np.full((len(sentences), max(map(len, sentences))), -1, np.int64)
    for row, tokens in zip(found, sentences, strict=True):
        row[: len(tokens)] = tokens
    return found
