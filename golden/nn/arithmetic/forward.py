"""Integer forward pass: activations Q8.16, parameters Q4.12, exact sums, one rounding per value.

A stage sums products, bias and residual exactly, rounds once to Q8.16 with saturation, applies the activation and
pools; an average is an exact sum and one division, rounded half to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ...errors import UserError
from ...fixed import Q4_12, Q8_16, Format, Integers, Narrower, divided
from ...models.layers import AveragePool, Convolution, Linear, Pair, Sides
from ...models.stages import Stage, Tensors
from .multipliers import takes_dsp
from .products import Product

PRODUCT_FRACTION = Q8_16.fraction + Q4_12.fraction
"""Fraction bits of products and their sums."""


@dataclass(frozen=True)
class StageIntegers:
    """Weight, `Stage.weight_shape`, and bias, (`Stage.biases`,), of a stage in Q4.12."""

    weight: Integers
    bias: Integers


def run(
    stages: Sequence[Stage], parameters: Sequence[StageIntegers], inputs: Integers, product: Product, narrow: Narrower
) -> list[Integers]:
    """Outputs of all stages.

    Parameters
    ----------
    stages : sequence of Stage
        A network's stages, or the first of them.
    parameters : sequence of StageIntegers
    inputs : array of int, (n, *input_shape)
        Q8.16.
    product, narrow
        Matrix product and narrowing.

    Returns
    -------
    list of array of int64, (n, *stage.output_shape)
        Q8.16.
    """
    outputs = [inputs]
    for stage, own in zip(stages, parameters, strict=True):
        residual = None if stage.residual is None else side_by_side(outputs, stage.residual)
        outputs.append(forward(stage, own, side_by_side(outputs, stage.source), product, narrow, residual))
    return outputs[1:]


def side_by_side(values: Sequence[Integers], numbers: Tensors) -> Integers:
    """Concatenate tensors of a source or residual; maps of different sizes become a vector a sample.

    Parameters
    ----------
    values : sequence of array of int
        The sample, then the outputs of the stages.
    numbers : tuple of int
        Tensors to concatenate, -1 for the sample.
    """
    own = [values[number + 1] for number in numbers]
    if len({one.shape[2:] for one in own}) > 1:
        own = [one.reshape(len(one), -1) for one in own]
    return own[0] if len(own) == 1 else np.concatenate(own, axis=1)


def forward(
    stage: Stage,
    own: StageIntegers,
    inputs: Integers,
    product: Product,
    narrow: Narrower,
    residual: Integers | None = None,
) -> Integers:
    """Outputs of one stage.

    Parameters
    ----------
    stage : Stage
    own : StageIntegers
    inputs : array of int, (n, *stage.input_shape)
        Q8.16.
    product, narrow
        Matrix product and narrowing.
    residual : array of int, (n, *stage.computed_shape), optional
        Q8.16, for a stage with a residual.

    Returns
    -------
    array of int64, (n, *stage.output_shape)
        Q8.16.
    """
    pixels = computed_pixels(stage)
    sums = _sums(stage, own, inputs, pixels, product) + (own.bias << Q8_16.fraction)
    if stage.residual is not None:
        assert residual is not None, "a stage with a residual is given it"
        added = residual.reshape(len(inputs), stage.biases, *stage.computed_shape[1:] or (1, 1))
        added = added[:, :, : pixels[0], : pixels[1]].transpose(0, 2, 3, 1)
        sums = sums + (added.reshape(sums.shape) << Q4_12.fraction)
    # pixels of overlapping or padded windows are computed once a window
    apart = stage.pool is not None and (stage.pool.stride != stage.pool.size or any(stage.pool.padding))
    if apart:
        maps = sums.reshape(len(inputs), *pixels, stage.biases).transpose(0, 3, 1, 2)
        top, bottom, left, right = beyond_map(stage)
        least = Q8_16.minimum << Q4_12.fraction
        beyond = ((0, 0), (0, 0), (top, bottom), (left, right))
        sums = _pool_windows(np.pad(maps, beyond, constant_values=least), stage)
    result = narrow(sums, PRODUCT_FRACTION, Q8_16)
    if stage.activation is not None:
        result = stage.activation.integers(result)
    if apart and any(beyond_map(stage)):
        inside = _pool_windows(np.pad(np.ones((1, 1, *pixels), np.int64), beyond), stage)
        result = np.where(inside, result, Q8_16.minimum)
    if len(stage.computed_shape) == 1:
        return result
    if not apart:
        result = result.reshape(len(inputs), *pixels, stage.biases).transpose(0, 3, 1, 2)
        result = result if stage.pool is None else _pool_windows(result, stage)
    return np.ascontiguousarray(result if stage.pool is None else _pooled(result, stage))


def computed_pixels(stage: Stage) -> Pair:
    """Height and width of the computed pixels.

    Pixels outside all pool windows are not computed, and do not saturate. Pixels of several windows are computed, and
    counted, once a window.
    """
    if len(stage.computed_shape) == 1:
        return 1, 1
    if stage.pool is None:
        return stage.computed_shape[1], stage.computed_shape[2]
    (height, width), (top, bottom, left, right) = pooled_pixels(stage), beyond_map(stage)
    return height - top - bottom, width - left - right


def pooled_pixels(stage: Stage) -> Pair:
    """Rows and columns of all pool windows together, padding included."""
    assert stage.pool is not None
    _, *windows = stage.output_shape
    down, across = (
        (count - 1) * stride + size
        for count, stride, size in zip(windows, stage.pool.stride, stage.pool.size, strict=True)
    )
    return down, across


def beyond_map(stage: Stage) -> Sides:
    """Rows and columns of pool windows beyond the map: top, bottom, left, right."""
    if stage.pool is None:
        return 0, 0, 0, 0
    top, _, left, _ = stage.pool.padding
    (height, width), (rows, columns) = pooled_pixels(stage), stage.computed_shape[1:]
    return top, max(height - top - rows, 0), left, max(width - left - columns, 0)


def _sums(stage: Stage, own: StageIntegers, inputs: Integers, pixels: Pair, product: Product) -> Integers:
    """Sums of products, (n * pixels, biases)."""
    if isinstance(stage.layer, Linear):
        return product(inputs.reshape(len(inputs), -1), own.weight.T)
    if len(stage.computed_shape) == 1:
        return inputs.reshape(len(inputs), -1) * own.weight.reshape(-1)
    windows = _windows(inputs, stage, pixels)
    if isinstance(stage.layer, Convolution):
        # a matrix product a group
        rows = windows.reshape(prod(windows.shape[:3]), stage.layer.groups, -1).transpose(1, 0, 2)
        weights = own.weight.reshape(stage.layer.groups, stage.biases // stage.layer.groups, -1)
        return np.concatenate([product(*pair) for pair in zip(rows, weights.transpose(0, 2, 1), strict=True)], axis=1)
    # a matrix product a channel
    rows = windows.transpose(3, 0, 1, 2, 4, 5).reshape(stage.biases, prod(windows.shape[:3]), -1)
    return product(rows, own.weight.reshape(stage.biases, -1, 1))[:, :, 0].T


def _windows(inputs: Integers, stage: Stage, pixels: Pair) -> Integers:
    """Inputs of each output pixel, (n, height, width, channels, kernel height, kernel width)."""
    assert not isinstance(stage.layer, Linear)
    top, bottom, left, right = stage.layer.padding
    padded = np.pad(inputs, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, stage.layer.kernel, axis=(2, 3))
    (down, across), (height, width) = stage.layer.stride, pixels
    return windows[:, :, ::down, ::across][:, :, :height, :width].transpose(0, 2, 3, 1, 4, 5)


def _pool_windows(maps: Integers, stage: Stage) -> Integers:
    """Pool windows, (n, channels, height, width, window height, window width)."""
    assert stage.pool is not None
    down, across = stage.pool.stride
    windows: Integers = np.lib.stride_tricks.sliding_window_view(maps, stage.pool.size, axis=(2, 3))
    return windows[:, :, ::down, ::across]


def _pooled(windows: Integers, stage: Stage) -> Integers:
    assert stage.pool is not None
    if isinstance(stage.pool, AveragePool):
        return divided(windows.sum(axis=(4, 5)), prod(stage.pool.size))
    result: Integers = windows.max(axis=(4, 5))
    return result


NUMERATOR_PART, MULTIPLIER_PART = 26, 17
"""Unsigned operand bits of a DSP slice."""


@dataclass(frozen=True)
class Reciprocal:
    """Division by a constant as hardware does it: one multiplication, whose low bits tell a tie.

    With ``numerator = sum + count * 2**(width - 1) + count // 2``, which is not negative, ``product = numerator *
    multiplier``: its bits from `shift` on are the quotient rounded half up, plus ``2**(width - 1)``. If the count is
    even and the low `shift` bits are less than `multiplier`, it was a tie, and the quotient's lowest bit becomes 0.

    Why this is exact: let ``multiplier * count = 2**shift + error`` and ``numerator = q * count + r`` with ``r <
    count``. The product is ``q * 2**shift + low`` with ``low = q * error + r * multiplier``. The shift is the least for
    which `error` times the largest numerator is below ``2**shift``. Then ``low = (numerator * error + r * 2**shift) /
    count`` is below ``2**shift``: q is the bits from `shift` on. And ``q * error < 2**shift / count <= multiplier``:
    the low bits are less than the multiplier where r = 0, and nowhere else. That is a tie of an even count, as half of
    it was added; an odd count has no ties.

    Parameters
    ----------
    count : int
        Divisor, the values of a window, at least 1.
    activation : Format
        Format of the values, at least 2 bits: ``2**(width - 1)`` is then even and keeps the parity of a quotient.

    Attributes
    ----------
    numerator_bits : int
        Width of the unsigned numerator.
    multiplier : int
        Unsigned constant; 1 for a count that is a power of two.
    shift : int
        Low bits of the product below the quotient.
    """

    count: int
    activation: Format = Q8_16
    numerator_bits: int = field(init=False)
    multiplier: int = field(init=False)
    shift: int = field(init=False)

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"an average is of at least 1 value, not {self.count}")
        largest = self.count * ((1 << self.activation.width) - 1) + self.count // 2
        shift = 0
        while (-(1 << shift) % self.count) * largest >= 1 << shift:
            shift += 1
        object.__setattr__(self, "numerator_bits", largest.bit_length())
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "multiplier", -(-(1 << shift) // self.count))

    @property
    def parts(self) -> tuple[int, int]:
        """DSP-sized parts of numerator and multiplier, 26 and 17 unsigned bits; (0, 0) for a shift."""
        if self.multiplier == 1:
            return (0, 0)
        return -(-self.numerator_bits // NUMERATOR_PART), -(-self.multiplier.bit_length() // MULTIPLIER_PART)

    @property
    def dsps(self) -> int:
        """DSPs of all partial products."""
        across, down = self.parts
        widths = [min(NUMERATOR_PART, self.numerator_bits - i * NUMERATOR_PART) for i in range(across)]
        factors = [self.multiplier >> j * MULTIPLIER_PART & (1 << MULTIPLIER_PART) - 1 for j in range(down)]
        return sum(takes_dsp(width, factor) for width in widths for factor in factors if factor)

    @property
    def latency(self) -> int:
        """Cycles in hardware: operands, products, adder levels, quotient."""
        count = self.parts[0] * self.parts[1]
        return 3 + (count - 1).bit_length() if count else 1

    @property
    def offset(self) -> int:
        """Numerator minus sum."""
        return (self.count << (self.activation.width - 1)) + self.count // 2

    def divide(self, sums: Integers) -> Integers:
        """Quotients equal to `divided`, by multiplication; products may exceed 64 bits."""
        products = (sums.astype(object) + self.offset) * self.multiplier
        quotients, low = products >> self.shift, products & ((1 << self.shift) - 1)
        odd_ties = (low < self.multiplier) & (quotients & 1 == 1) if self.count % 2 == 0 else False
        result: Integers = (quotients - odd_ties - (1 << (self.activation.width - 1))).astype(np.int64)
        return result
