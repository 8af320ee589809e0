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
    """Tune all tensors."""
    return True


@dataclass(frozen=True, eq=False)
class TransformerModel:
    """Transformer with its frozen parameters, see `golden.zo.model.PerturbedModel`, or one of its parts.

    A part has words, and so a table of deltas, of its own. What passes from the first to the second is a row for each
    token, masked behind a sentence's last one, or a row for each sentence.

    Parameters
    ----------
    transformer : IntegerTransformer
    frozen : mapping
        From `IntegerTransformer.convert`.
    embeddings : array of int, (vocabulary, features), optional
        Q8.16. With them a sample is a sentence's tokens.
    tuned : callable
        Whether a tensor is perturbed.
    sensitive : mapping of (int, str) to array of int, optional
        Of tensors that are tuned in part the places of these values, ascending in the flat tensor. They are words of
        their own, of `sensitive_word` values in the order of their tiles.
    times : int
        Words after which deltas return, see `golden.zo.deltas`; 0 where each word has its own.
    lanes, columns : int
        Size of a tile.
    product : callable
        One of `PRODUCTS`.
    first : int
        First operation of the part.
    last : int, optional
        Operation behind its last one; by default it is the last part.
    first_row : int
        Number of its first row of deltas among those of the whole model.
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
        """Operations of the part."""
        return range(len(self.transformer.network.operations))[self.first : self.last]

    @cached_property
    def order(self) -> TensorWords:
        """Words of the tuned tensors, in the order of their use; of an operation its bias comes first."""
        shapes = self.transformer.network.parameter_shapes
        own = (name for name in shapes if name[0] in self.operations and self.tuned(name))
        names = sorted(own, key=lambda name: (name[0], name[1] != "bias"))
        sizes = {name: (len(self.sensitive[name]),) if name in self.sensitive else shapes[name] for name in names}
        return TensorWords(sizes, self.lanes, self.columns, self.sensitive.keys())

    @cached_property
    def _places(self) -> dict[TensorName, Integers]:
        """Sensitive values of each tensor, as `sensitive`, in the order of the tiles that hold them."""
        shapes, found = self.transformer.network.parameter_shapes, {}
        for name, places in self.sensitive.items():
            ranks = tile_places(shapes[name], self.lanes, self.columns).reshape(-1)[places]
            found[name] = places[np.argsort(ranks)]
        return found

    @property
    def words(self) -> int:
        """Words of a perturbation."""
        return self.order.words

    @property
    def rows(self) -> Integers:
        """Rows of the deltas of the words, or of as many as return."""
        return self.first_row + np.arange(min(self.times, self.words) or self.words)

    @property
    def offset_format(self) -> Format:
        """Format of the offsets: that of deltas, as each tensor rounds them to its own."""
        return DELTA

    def parts(self, cut: int) -> tuple[TransformerModel, ...]:
        """Both parts of the model that is cut before an operation; without a cut, 0, all of it.

        Raises
        ------
        UserError
            If more than one operation's outputs would pass, or nothing is tuned in a part.
        """
        if not cut:
            return (self,)
        network = self.transformer.network
        network.crossing(cut)
        for side, some in (("before", range(cut)), ("behind", range(cut, len(network.operations)))):
            if not any(name[0] in some and self.tuned(name) for name in network.parameter_shapes):
                raise network.error(cut, f"is no place for a cut ({cut}): nothing {side} it is tuned")
        first = replace(self, last=cut)
        return first, replace(self, first=cut, first_row=len(first.rows))

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
        self.rows_of(inputs)

    def lengths(self, inputs: Integers) -> tuple[int, ...]:
        """Tokens of each sample."""
        return self.rows_of(inputs)[1]

    def rows_of(self, inputs: Integers) -> tuple[Integers, tuple[int, ...]]:
        """Rows of all samples, and how many each has."""
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
            own = self.order.gathered(name, rounded)
            if name in self.sensitive:
                own, values = np.zeros_like(self.frozen[name]), own
                own.reshape(-1)[self._places[name]] = values
            moved[name] = np.clip(self.frozen[name] + own, form.minimum, form.maximum)
        return moved

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        """Compute the outputs with offsets added to the parameters.

        Parameters
        ----------
        inputs : array of int, (samples, tokens) or (samples, tokens, features)
            Tokens, with -1 behind a sentence's last one; without embeddings rows in Q8.16. Of a second part the first
            one's outputs.
        offsets : array of int, (words, n)
            In `offset_format`.
        narrow : Narrower
            Counts the values that are clipped.

        Returns
        -------
        array of int64, (samples, classes)
            Q8.16. Of a first part what passes the cut, in its format: (samples, features), or masked behind a
            sentence's last token (samples, tokens, features).
        """
        return self.run(inputs, self.parameters(offsets), narrow)

    def run(self, inputs: Integers, parameters: TransformerIntegers, narrow: Narrower) -> Integers:
        """Compute the outputs, as `forward` gives them, with these parameters."""
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
    """Rows of all sentences as one array, masked behind the last token of each: (sentences, tokens, features)."""
    there = np.arange(max(lengths)) < np.array(lengths)[:, None]
    found = np.zeros((*there.shape, rows.shape[1]), np.int64)
    found[there] = rows
    return np.ma.array(found, mask=np.broadcast_to(~there[:, :, None], found.shape))


def padded(sentences: list[Integers]) -> Integers:
    """Sentences of tokens as one array, with -1 behind the last token of each."""
    found = np.full((len(sentences), max(map(len, sentences))), -1, np.int64)
    for row, tokens in zip(found, sentences, strict=True):
        row[: len(tokens)] = tokens
    return found
