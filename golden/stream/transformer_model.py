"""Transformer as the model of a zeroth-order job: frozen parameters, and offsets of the tuned ones in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..errors import UserError
from ..fixed import Format, Integers, Narrower, shifted
from ..nn.arithmetic.loss import Loss, labels_of
from ..nn.arithmetic.products import PRODUCTS, Product
from ..zo.deltas import DELTA
from .forward import IntegerTransformer, TransformerIntegers
from .words import TensorName, TensorWords, tile_places


def everything(name: TensorName) -> bool:
    return True


@dataclass(frozen=True, eq=False)
class TransformerModel:
    """Transformer, or a part of it, with frozen parameters, see `golden.zo.model.PerturbedModel`.

    Each part has its own words and table of deltas. At the cut the values have a row for each token, masked after a
    sentence's end, or a row for each sentence.

    Parameters
    ----------
    frozen : mapping
        From `IntegerTransformer.convert`.
    embeddings : array of int, (vocabulary, features), optional
        Q8.16; if given, a sample is a sentence's tokens.
    tuned : callable
        Predicate of the perturbed tensors.
    sensitive : mapping of (int, str) to array of int, optional
        Ascending flat indices of the tuned values of partly tuned tensors. They have their own words, `sensitive_word`
        values in tile order.
    times : int
        Period of the deltas in words, see `golden.zo.deltas`; 0 for a delta for each word.
    lanes, columns : int
        Inputs and outputs of a tile.
    product : callable
        One of `PRODUCTS`.
    first : int
        First operation of the part.
    last : int, optional
        First operation after the part, by default the end of the network.
    first_row : int
        Number of the part's first row of deltas in the whole model.
    """

    transformer: IntegerTransformer
    frozen: TransformerIntegers
    embeddings: Integers | None = None
    tuned: Callable[[TensorName], bool] = everything
    sensitive: Mapping[TensorName, Integers] = field(default_factory=dict)
    times: int = 0
    lanes: int = 32
    columns: int = 16
    product: Product = field(default=PRODUCTS["blas"])
    first: int = 0
    last: int | None = None
    first_row: int = 0

    @property
    def operations(self) -> range:
        return range(len(self.transformer.network.operations))[self.first : self.last]

    @cached_property
    def order(self) -> TensorWords:
        """Words of the tuned tensors, in order of use; an operation's bias comes first."""
        shapes = self.transformer.network.parameter_shapes
        tuned = (name for name in shapes if name[0] in self.operations and self.tuned(name))
        names = sorted(tuned, key=lambda name: (name[0], name[1] != "bias"))
        sizes = {name: (len(self.sensitive[name]),) if name in self.sensitive else shapes[name] for name in names}
        return TensorWords(sizes, self.lanes, self.columns, self.sensitive.keys())

    @cached_property
    def _places(self) -> dict[TensorName, Integers]:
        """Sensitive flat indices of each tensor, in tile order."""
        shapes, indices = self.transformer.network.parameter_shapes, {}
        for name, places in self.sensitive.items():
            ranks = tile_places(shapes[name], self.lanes, self.columns).reshape(-1)[places]
            indices[name] = places[np.argsort(ranks)]
        return indices

    @property
    def words(self) -> int:
        return self.order.words

    @property
    def rows(self) -> Integers:
        """Rows of the deltas, of all words or of one period."""
        return self.first_row + np.arange(min(self.times, self.words) or self.words)

    @property
    def offset_format(self) -> Format:
        """Format of the offsets: the format of the deltas, because each tensor rounds to its own format."""
        return DELTA

    def parts(self, cut: int) -> tuple[TransformerModel, ...]:
        """Both parts of the model, cut before operation `cut`; the model itself for 0.

        Raises `UserError` if more than one output crosses the cut, or nothing is tuned in a part.
        """
        if not cut:
            return (self,)
        network = self.transformer.network
        network.crossing(cut)
        for side, operations in (("before", range(cut)), ("behind", range(cut, len(network.operations)))):
            if not any(name[0] in operations and self.tuned(name) for name in network.parameter_shapes):
                raise network.error(cut, f"is no place for a cut ({cut}): nothing {side} it is tuned")
        first = replace(self, last=cut)
        return first, replace(self, first=cut, first_row=len(first.rows))

    def label_count(self, loss: Loss) -> int:
        """Number of labels of a sample, see `labels_of`.

        Raises `UserError` if the network has outputs for each token.
        """
        network = self.transformer.network
        outputs, pooled = network.shapes[-1]
        if not pooled:
            raise UserError(f"{network.name} gives outputs for each token: it needs a pooling and a head")
        return labels_of(loss, network.name, network.features, outputs)

    def check(self, inputs: Integers, labels: Integers) -> None:
        """Refuse a batch that does not fit the model.

        Raises `UserError` if samples have a wrong shape, a sentence is empty or too long, or labels are missing.
        """
        if len(labels) != len(inputs):
            raise UserError(f"{len(labels)} labels for {len(inputs)} samples")
        self.rows_of(inputs)

    def lengths(self, inputs: Integers) -> tuple[int, ...]:
        return self.rows_of(inputs)[1]

    def rows_of(self, inputs: Integers) -> tuple[Integers, tuple[int, ...]]:
        """Rows of all samples, (tokens, features), and the number of rows of each."""
        network = self.transformer.network
        if self.first:
            if inputs.ndim == 2:
                return inputs, (1,) * len(inputs)
            passed = ~np.ma.getmaskarray(inputs)[:, :, 0]
            return np.asarray(inputs)[passed], tuple(map(int, passed.sum(axis=1)))
        if self.embeddings is None:
            if inputs.ndim != 3 or inputs.shape[2] != network.features:
                raise UserError(f"{network.name} takes n x tokens x {network.features} values, not {inputs.shape}")
            lengths = (inputs.shape[1],) * len(inputs)
            network.check_lengths(lengths)
            return inputs.reshape(-1, network.features), lengths
        if inputs.ndim != 2 or (inputs >= len(self.embeddings)).any():
            raise UserError(f"{network.name} takes n x tokens from 0 to {len(self.embeddings) - 1}, not {inputs.shape}")
        is_token = inputs >= 0
        if (is_token[:, 1:] & ~is_token[:, :-1]).any():
            raise UserError(f"{network.name} takes sentences whose tokens are neighbours")
        lengths = tuple(map(int, is_token.sum(axis=1)))
        network.check_lengths(lengths)
        return self.embeddings[inputs[is_token]], lengths

    def parameters(self, offsets: Integers) -> TransformerIntegers:
        """Frozen parameters plus offsets, (words, n), rounded once, half to even, and saturated."""
        moved = dict(self.frozen)
        for name, place in self.order.places.items():
            form = self.transformer.format_of(name)
            rounded = shifted(offsets[place.start : place.stop], np.array(DELTA.fraction - form.fraction))
            change = self.order.gathered(name, rounded)
            if name in self.sensitive:
                change, values = np.zeros_like(self.frozen[name]), change
                change.reshape(-1)[self._places[name]] = values
            moved[name] = np.clip(self.frozen[name] + change, form.minimum, form.maximum)
        return moved

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        """Outputs with offsets added to the parameters.

        Parameters
        ----------
        inputs : array of int, (samples, tokens) or (samples, tokens, features)
            Tokens, -1 after a sentence's end; without embeddings rows in Q8.16. For a second part the first part's
            outputs.
        offsets : array of int, (words, n)
            In `offset_format`.
        narrow : Narrower
            Counts the clipped values of each operation.

        Returns
        -------
        array of int64, (samples, classes)
            Q8.16. For a first part the values at the cut in their format: (samples, features), or (samples, tokens,
            features) masked after a sentence's end.
        """
        return self.run(inputs, self.parameters(offsets), narrow)

    def run(self, inputs: Integers, parameters: TransformerIntegers, narrow: Narrower) -> Integers:
        """Outputs with these parameters, see `forward`."""
        (rows, lengths), network = self.rows_of(inputs), self.transformer.network
        outputs, saturations = self.transformer.run(parameters, rows, lengths, self.product, self.operations)
        for number, count in zip(self.operations, saturations, strict=True):
            narrow.note(network.titles[number], count)
        if self.last is None:
            return outputs[-1]
        passing = network.crossing(self.last)
        values = outputs[passing - self.first]
        return values if network.shapes[passing][1] else masked(values, lengths)


def masked(rows: Integers, lengths: tuple[int, ...]) -> Integers:
    """Rows of all sentences, (sentences, tokens, features), masked after a sentence's end."""
    is_token = np.arange(max(lengths)) < np.array(lengths)[:, None]
    values = np.zeros((*is_token.shape, rows.shape[1]), np.int64)
    values[is_token] = rows
    return np.ma.array(values, mask=np.broadcast_to(~is_token[:, :, None], values.shape))


def padded(sentences: list[Integers]) -> Integers:
    """Sentences of tokens, (sentences, tokens), with -1 after a sentence's end."""
    array = np.full((len(sentences), max(map(len, sentences))), -1, np.int64)
    for row, tokens in zip(array, sentences, strict=True):
        row[: len(tokens)] = tokens
    return array
