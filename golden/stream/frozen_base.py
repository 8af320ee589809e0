"""Frozen tensors of a transformer as the hardware holds them: matrices in NF4 or 18 bits, with the error of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..fixed import Format, Integers, narrow
from ..nf4.codec import LEVEL_FRACTION, LEVELS, MIDPOINTS, Codes
from ..transformer.blocks import Parameters, Transformer
from .forward import IntegerTransformer, TransformerIntegers, is_weight, weight_formats
from .words import TensorName

BaseKind = Literal["nf4", "18-bit"]
BASES: tuple[BaseKind, ...] = get_args(BaseKind)


@dataclass(frozen=True, eq=False)
class FrozenBase:
    """Integers of all tensors, and how far they are from the floats.

    Parameters
    ----------
    transformer : IntegerTransformer
    integers : mapping
        What the array multiplies; matrices in NF4 are dequantised.
    errors : mapping of (int, str) to float
        Relative rms error of each matrix.
    codes : mapping of (int, str) to Nf4Weights
        Matrices in NF4, with codes of 0 where they have sensitive values.
    clipped : mapping of (int, str) to int
        Values of biases and positions that saturate; only what does is named.
    """

    transformer: IntegerTransformer
    integers: TransformerIntegers
    errors: Mapping[TensorName, float]
    codes: Mapping[TensorName, Nf4Weights]
    clipped: Mapping[TensorName, int]


def frozen_base(
    network: Transformer,
    parameters: Parameters,
    base: BaseKind = "nf4",
    coarse: Callable[[TensorName], bool] = lambda name: True,
    sensitive: Mapping[TensorName, Integers] = MappingProxyType({}),
    activations: Mapping[int, Format] | None = None,
) -> FrozenBase:
    """Convert the tensors of a transformer.

    Parameters
    ----------
    network : Transformer
    parameters : mapping
    base : "nf4" or "18-bit"
        Matrices as 4-bit codes with a scale for each 64 inputs, or as they are multiplied.
    coarse : callable
        Whether a matrix may be NF4, by default each.
    sensitive : mapping of (int, str) to array of int
        Places of values of a matrix, in the flat tensor, that stay 18 bits beside its NF4 codes, which are of 0 there.
    activations : mapping of int to Format, optional
        Formats of large activations, see `IntegerTransformer`.

    Raises
    ------
    UserError
        If there is no such base, the tensors are not the network's, or one has a value that no format or scale holds.
    """
    if base not in BASES:
        raise UserError(f"base = {base!r} is not one of {', '.join(BASES)}")
    network.check(parameters)
    transformer = IntegerTransformer(network, weight_formats(parameters), activations or {})
    converted, clipped = transformer.convert(parameters)
    if outliers := [name for name in clipped if is_weight(name)]:
        (number, kind), form = outliers[0], transformer.format_of(outliers[0])
        largest = np.abs(parameters[outliers[0]]).max()
        raise network.error(number, f"has a {kind} of {largest:.4g}, and 18 bits hold at most {form.maximum}")
    integers, errors, codes = dict(converted), {}, {}
    for name, values in parameters.items():
        if name[1] != "weight":
            continue
        form = transformer.format_of(name)
        if base == "nf4" and coarse(name):
            rest, own = values.copy(), sensitive.get(name, np.arange(0))
            rest.reshape(-1)[own] = 0
            codes[name] = Nf4Weights.of(rest, form)
            integers[name] = codes[name].dequantised()
            integers[name].reshape(-1)[own] = converted[name].reshape(-1)[own]
        size = np.sqrt(np.mean(np.square(values, dtype=np.float64)))
        off = np.sqrt(np.mean((form.to_float(integers[name]) - values) ** 2))
        errors[name] = float(off / size) if size else 0.0
    return FrozenBase(transformer, integers, errors, codes, clipped)


BLOCK = 64
"""Inputs of an output that share a scale: two tiles."""
SCALE_BITS = 16
"""Bits of a scale, unsigned."""
WEIGHT = Format(SCALE_BITS + 2, 0)
"""A weight of any of the formats of 18 bits."""


@dataclass(frozen=True, eq=False)
class Nf4Weights:
    """Weights of a linear layer as codes and scales.

    Parameters
    ----------
    codes : array of uint8, (outputs, inputs)
    scales : array of int64, (outputs, blocks)
        `SCALE_BITS` bits, with the fraction of `scale_format`.
    form : Format
        Of the weights that the array multiplies.
    """

    codes: Codes
    scales: Integers
    form: Format

    def __post_init__(self) -> None:
        _scale_format(self.form)

    @classmethod
    def of(cls, weights: NDArray[np.floating], form: Format) -> Nf4Weights:
        """Quantise weights of floats; a block of zeros has scale 0.

        A scale is the largest magnitude of its block, rounded half to even. A value at a threshold has the lower code.

        Parameters
        ----------
        weights : array of float, (outputs, inputs)
        form : Format
            Signed, of 18 bits.

        Raises
        ------
        UserError
            If a scale does not fit: an outlier is beyond the format.
        """
        inputs = weights.shape[1]
        more = -inputs % BLOCK
        blocks = np.pad(weights.astype(np.float64), ((0, 0), (0, more))).reshape(len(weights), -1, BLOCK)
        scale_format = _scale_format(form)
        largest = np.abs(blocks).max(axis=2)
        scales = np.rint(np.ldexp(largest, scale_format.fraction)).astype(np.int64)
        if scales.max() > scale_format.maximum:
            raise UserError(
                f"a weight of {largest.max():.4g} is beyond a scale of {scale_format}: give it a wider format"
            )
        thresholds = scale_format.to_float(scales)[..., None] * MIDPOINTS.astype(np.float64)
        codes = np.zeros(blocks.shape, np.uint8)
        for number in range(len(MIDPOINTS)):
            codes += blocks > thresholds[..., number : number + 1]
        return cls(codes.reshape(len(weights), -1)[:, :inputs], scales, form)

    def dequantised(self) -> Integers:
        """Weights in `form`: level times scale, rounded once half to even, (outputs, inputs)."""
        return dequantise(self.codes, self.scales.repeat(BLOCK, axis=1)[:, : self.codes.shape[1]])

    @property
    def bytes(self) -> int:
        """Bytes of codes and scales, two codes a byte, whole blocks."""
        return self.scales.size * (BLOCK // 2 + SCALE_BITS // 8)

    def error(self, weights: NDArray[np.floating]) -> float:
        """Relative rms error of the weights that the array multiplies."""
        off = self.form.to_float(self.dequantised()) - weights
        size = float(np.sqrt(np.mean(np.square(weights, dtype=np.float64))))
        return float(np.sqrt(np.mean(off**2))) / size if size else 0.0


def dequantise(codes: Codes, scales: Integers) -> Integers:
    """Level times scale, rounded once half to even: integers in the format of weights, whichever that is.

    Parameters
    ----------
    codes : array of uint8
    scales : array of int
        One for each code; the fraction bits of a scale are one less than a weight's.
    """
    return narrow(LEVELS[codes] * scales, LEVEL_FRACTION - 1, WEIGHT)


def _scale_format(form: Format) -> Format:
    """Format of scales: what a weight's format holds of positive numbers, without its last bit."""
    if form.width != WEIGHT.width or not form.signed:
        raise UserError(f"weights in NF4 are {SCALE_BITS + 2} bits signed, not {form}")
    return Format(form.integer - 1, form.fraction - 1, signed=False)
