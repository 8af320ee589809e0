"""Contract of a zeroth-order step with a model: the words of its parts' perturbations, and their outputs with offsets.

A step knows no form of a network. A model has parameters in words: a word is the group of parameters that one cycle of
the generator perturbs. It may be cut in two parts, and computes the outputs of a part with offsets added to its
parameters; how, and what they are, is its own. A step never writes to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..fixed import Format, Integers, Narrower
from ..nn.arithmetic.loss import Loss


class PartWords(Protocol):
    """Words of a part's perturbations.

    Attributes
    ----------
    words : int
        Words of a perturbation, and so cycles of the generator.
    rows : array of int
        Rows of its deltas among those of both parts: one for each word, or fewer that words share in turn.
    """

    @property
    def words(self) -> int: ...

    @property
    def rows(self) -> Integers: ...


class ModelWords(Protocol):
    """Words of a model's perturbations, by its cuts."""

    def parts(self, cut: int) -> Sequence[PartWords]:
        """Both parts of the model where it is cut; without a cut, 0, all of it as the only one."""
        ...


class PerturbedPart(PartWords, Protocol):
    """Part of a model, with its pre-trained parameters.

    Attributes
    ----------
    offset_format : Format
        Format of the offsets.
    """

    @property
    def offset_format(self) -> Format: ...

    def forward(self, inputs: Integers, offsets: Integers, narrow: Narrower) -> Integers:
        """Compute the outputs with offsets added to the parameters.

        Parameters
        ----------
        inputs : array of int, (samples, ...)
            Samples, or outputs of the first part.
        offsets : array of int, (words, n)
            In `offset_format`; parameter j of a word takes number ``j mod n``.
        narrow : Narrower
            Counts the values that are clipped.

        Returns
        -------
        array of int, (samples, ...)
            Of a model's last part its outputs in Q8.16.
        """
        ...


class PerturbedModel(ModelWords, Protocol):
    """Model that a zeroth-order step perturbs."""

    def parts(self, cut: int) -> Sequence[PerturbedPart]:
        """Both parts of the model where it is cut; without a cut, 0, all of it as the only one.

        Raises
        ------
        UserError
            If it is not cut there.
        """
        ...

    def labels(self, loss: Loss) -> int:
        """Count the labels that a sample can have.

        Raises
        ------
        UserError
            If the loss does not fit the outputs.
        """
        ...

    def check(self, inputs: Integers, labels: Integers) -> None:
        """Refuse a batch that is not the model's.

        Raises
        ------
        UserError
            If the shape of the samples or the number of the labels does not fit.
        """
        ...
