"""Frozen tensors of a transformer as the hardware holds them: matrices in NF4 or 18 bits, with the error of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np

from ..errors import UserError
from ..fixed import Format, Integers
from ..transformer.blocks import Parameters, Transformer
from .forward import IntegerTransformer, TransformerIntegers, is_weight, weight_formats
from .nf4_weights import Nf4Weights
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
