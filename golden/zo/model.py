"""Protocols of a model for zeroth-order steps.

The parameters form words: a word is the group of parameters of one generator cycle. A step computes outputs with an
offset, delta ± eps z, added to each parameter, and never writes the parameters. The model may be cut in two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..fixed import Format, Integers, Narrower
from ..nn.arithmetic.loss import Loss


class PartWords(Protocol):
    """Words of a perturbation of a part.

    Attributes
    ----------
    words : int
        Number of words: generator cycles of a perturbation.
    rows : array of int
        Number, in the whole model, of each word's row of deltas; or the rows of one period, if words share rows.
    """

    @property
    def words(self) -> int: ...

    @property
    def rows(self) -> Integers: ...


class ModelWords(Protocol):
    """Words of a model's perturbations, by cut."""

    def parts(self, cut: int) -> Sequence[PartWords]:
        """Both parts of the model cut at `cut`; for 0 the whole as the only part."""
        ...


class PerturbedPart(PartWords, Protocol):
    """Part of a model, with its pre-trained parameters."""

    @property
    def offset_format(self) -> Format: ...

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        """Outputs with offsets added to the parameters.

        Parameters
        ----------
        inputs : array of int, (samples, ...)
            Samples; for the second part, outputs of the first part.
        offsets : array of int, (words, n)
            Offsets in `offset_format`; parameter j of a word takes number ``j mod n``.
        narrow : Narrower
            Counts clipped values.

        Returns
        -------
        array of int, (samples, ...)
            Outputs; of the last part in Q8.16.
        """
        ...


class PerturbedModel(ModelWords, Protocol):
    """Model for zeroth-order steps."""

    def parts(self, cut: int) -> Sequence[PerturbedPart]:
        """Both parts of the model cut at `cut`; for 0 the whole as the only part.

        Raises `UserError` if the model has no such cut.
        """
        ...

    def label_count(self, loss: Loss) -> int:
        """Number of labels of a sample, as targets of the loss.

        Raises `UserError` if the loss does not fit the outputs.
        """
        ...

    def check(self, inputs: Integers, labels: Integers) -> None:
        """Refuse a batch that does not fit the model.

        Raises `UserError` if the samples' shape or the number of labels is wrong.
        """
        ...
