"""Frozen tensors of a transformer as the hardware holds them, in NF4 or 18 bits, with quantisation errors."""

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
    """Integers of all tensors, and their errors.

    `integers` are the array's operands, NF4 matrices dequantised; `codes` are the NF4 matrices, with code 0 at
    sensitive values. `errors` are relative rms errors of the matrices, `clipped` counts the clipped values of tensors
    that saturate.
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
    """Integers of a transformer's float tensors.

    Raises `UserError` if `base` is unknown, the tensors are not the network's, or a value fits no format or scale.

    Parameters
    ----------
    base : "nf4" or "18-bit"
        Format of the matrices: 4-bit codes with a scale for each 64 inputs, or 18-bit operands.
    coarse : callable
        Predicate of the matrices that may be NF4, by default all.
    sensitive : mapping of (int, str) to array of int
        Flat indices of matrix values that stay 18 bits; their NF4 codes are 0.
    activations : mapping of int to Format, optional
        Formats of large activations, see `IntegerTransformer`.
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
            rest, chosen = values.copy(), sensitive.get(name, np.arange(0))
            rest.reshape(-1)[chosen] = 0
            codes[name] = Nf4Weights.of(rest, form)
            integers[name] = codes[name].dequantised()
            integers[name].reshape(-1)[chosen] = converted[name].reshape(-1)[chosen]
        size = np.sqrt(np.mean(np.square(values, dtype=np.float64)))
        off = np.sqrt(np.mean((form.to_float(integers[name]) - values) ** 2))
        errors[name] = float(off / size) if size else 0.0
    return FrozenBase(transformer, integers, errors, codes, clipped)


BLOCK = 64
"""Inputs of an output with a common scale: two tiles."""
SCALE_BITS = 16
"""Bits of a scale, unsigned."""
WEIGHT = Format(SCALE_BITS + 2, 0)
"""Width of all weight formats, 18 bits."""


@dataclass(frozen=True, eq=False)
class Nf4Weights:
    """Weights of a linear layer, (outputs, inputs), as codes and scales.

    Parameters
    ----------
    codes : array of uint8, (outputs, inputs)
        0 to 15.
    scales : array of int64, (outputs, blocks)
        `SCALE_BITS` bits, unsigned, one fraction bit less than `form`.
    form : Format
        Format of the dequantised weights, 18 bits, signed.
    """

    codes: Codes
    scales: Integers
    form: Format

    def __post_init__(self) -> None:
        _scale_format(self.form)

    @classmethod
    def of(cls, weights: NDArray[np.floating], form: Format) -> Nf4Weights:
        """Quantised float weights, (outputs, inputs).

        A scale is the largest magnitude of its block, rounded half to even; a block of zeros has scale 0. A value at a
        threshold takes the lower code. Raises `UserError` if an outlier exceeds the scale's format.
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
        """Weights in `form`, (outputs, inputs): level times scale, rounded once, half to even."""
        return dequantise(self.codes, self.scales.repeat(BLOCK, axis=1)[:, : self.codes.shape[1]])

    @property
    def bytes(self) -> int:
        """Bytes of codes and scales: two codes a byte, whole blocks."""
        return self.scales.size * (BLOCK // 2 + SCALE_BITS // 8)

    def error(self, weights: NDArray[np.floating]) -> float:
        off = self.form.to_float(self.dequantised()) - weights
        size = float(np.sqrt(np.mean(np.square(weights, dtype=np.float64))))
        return float(np.sqrt(np.mean(off**2))) / size if size else 0.0


def dequantise(codes: Codes, scales: Integers) -> Integers:
    """Level times scale, rounded once, half to even, (shape of `codes`).

    `scales` has one scale for each code, with one fraction bit less than the resulting weights.
    """
    return narrow(LEVELS[codes] * scales, LEVEL_FRACTION - 1, WEIGHT)


def _scale_format(form: Format) -> Format:
    if form.width != WEIGHT.width or not form.signed:
        raise UserError(f"weights in NF4 are {SCALE_BITS + 2} bits signed, not {form}")
    return Format(form.integer - 1, form.fraction - 1, signed=False)
