"""Integer adapters that add to the logits: forward, gradients, update (InstantFT, equations 1 and 3).

An adapter reads a frozen activation x (Q8.16) and adds B A x to the logits. Adapters are independent: no gradient
propagates through the network. Parameters are Q4.12. Products are summed over a batch before rounding.

Adapters can also tune the weights and biases of the last layer. Then A is added to the weights; B is constant and
selects a class. Rank j of adapter k is class k * rank + j: its h is added to this logit alone, and its gradient is
exactly the logit's. The input is the last layer's input and a constant 1 for the biases, or the constant alone. A logit
is the sum of two rounded numbers, base and h; in a layer with summed weights it is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UserError
from ..fixed import Q4_12, Q8_16, Format, Integers, Narrower
from ..models.stages import Stage
from ..nn.arithmetic.forward import PRODUCT_FRACTION
from ..nn.arithmetic.products import Product

BATCH_GRADIENT = Format(11, 16)
"""Format of a gradient summed over a batch: 27 bits, a DSP's wide operand."""
RATE_FRACTION = 20
MAXIMUM_RATE = (1 << 17) - 1
"""Largest learning rate of a sample, eta / batch: an unsigned integer of 17 bits, a DSP's narrow operand."""
NOISE_BITS = BATCH_GRADIENT.fraction + RATE_FRACTION - Q4_12.fraction
"""Bits that an update drops: the width of the random numbers of stochastic rounding."""


def rate_of(eta: float, batch: int) -> int:
    """Integer learning rate of a sample: eta / batch * 2**20 to nearest.

    Raises
    ------
    UserError
        If the result is 0 or has more than 17 bits.
    """
    if batch < 1:
        raise UserError(f"a batch has at least 1 sample, not {batch}")
    rate = round(eta / batch * 2**RATE_FRACTION) if np.isfinite(eta) else 0
    if not 0 < rate <= MAXIMUM_RATE:
        low, high = (end * batch / 2**RATE_FRACTION for end in (1, MAXIMUM_RATE))
        raise UserError(f"learning rate {eta} with batches of {batch} has no integer: take {low:.3g} to {high:.3g}")
    return rate


def scheduled_rate(rate: int, factor: float) -> int:
    """Integer learning rate times the factor of a schedule, to nearest, at least 1."""
    return max(round(rate * factor), 1)


class AdapterSizes(NamedTuple):
    """Sizes of all adapters.

    Parameters
    ----------
    inputs : tuple of int
        Input values of each adapter.
    selects : bool
        B is constant, as in the tuning of the last layer.
    """

    inputs: tuple[int, ...]
    classes: int
    rank: int
    selects: bool = False

    @property
    def parameters(self) -> int:
        """Parameters of all adapters."""
        return self.rank * (sum(self.inputs) + self.classes * len(self.inputs))

    @property
    def updated(self) -> int:
        """Length of the leading part of `Adapters.flat` that an update changes: all parameters, or all A."""
        return self.rank * sum(self.inputs) if self.selects else self.parameters


class Adapters:
    """Parameters of all adapters: a vector in Q4.12 and its views.

    Attributes
    ----------
    flat : array of int64, (shape.parameters,)
        All A, transposed, in the order of the adapters; then B.
    a : list of array, (inputs, rank)
        A of each adapter, transposed.
    b : array, (classes, adapters * rank)
        All B side by side.
    """

    def __init__(self, shape: AdapterSizes, flat: ArrayLike) -> None:
        self.shape = shape
        self.flat = np.array(flat, np.int64)
        if self.flat.shape != (shape.parameters,):
            raise UserError(f"adapters of {shape} have {shape.parameters} parameters, not {self.flat.shape}")
        if self.flat.size and (self.flat.min() < Q4_12.minimum or self.flat.max() > Q4_12.maximum):
            raise UserError(f"an adapter's parameters are {Q4_12}: {Q4_12.minimum} to {Q4_12.maximum}")
        ends = np.cumsum([inputs * shape.rank for inputs in shape.inputs])
        *parts, b = np.split(self.flat, ends)
        self.a = [part.reshape(-1, shape.rank) for part in parts]
        self.b = b.reshape(shape.classes, -1)

    @classmethod
    def of(cls, shape: AdapterSizes, a: Sequence[ArrayLike], b: Sequence[ArrayLike]) -> Adapters:
        """Adapters from each A (rank, inputs) and B (classes, rank), floats or integers of Q4.12."""
        parts = [*(np.asarray(matrix).T.reshape(-1) for matrix in a), np.concatenate(b, axis=1).reshape(-1)]
        flat: NDArray[np.generic] = np.concatenate(parts)
        return cls(shape, Q4_12.from_float(flat) if flat.dtype.kind == "f" else flat)

    def pairs(self) -> list[tuple[Integers, Integers]]:
        """Copies of (A, B) of each adapter: (rank, inputs), (classes, rank)."""
        count = len(self.a)
        return [(a.T.copy(), b.copy()) for a, b in zip(self.a, np.split(self.b, count, axis=1), strict=True)]

    def hidden(self, inputs: Sequence[Integers], product: Product, narrow: Narrower) -> Integers:
        """Hidden values h = A x of all adapters, (n, adapters * rank) in Q8.16.

        Parameters
        ----------
        inputs : sequence of array of int, (n, inputs)
            Input of each adapter, Q8.16.
        """
        sums = [product(x, a) for x, a in zip(inputs, self.a, strict=True)]
        return narrow(np.concatenate(sums, axis=1), PRODUCT_FRACTION, Q8_16)

    def logits(self, base: Integers, h: Integers, product: Product, narrow: Narrower) -> Integers:
        """Base logits plus the sum of all B h, (n, classes) in Q8.16: one exact sum, one rounding."""
        return narrow((base << Q4_12.fraction) + product(h, self.b.T), PRODUCT_FRACTION, Q8_16)

    def hidden_gradient(self, gradient: Integers, product: Product, narrow: Narrower) -> Integers:
        """Gradients B' g of all hidden values, (n, adapters * rank) in Q4.12, from (n, classes) in Q4.12."""
        return narrow(product(gradient, self.b), 2 * Q4_12.fraction, Q4_12)

    def update(
        self,
        inputs: Sequence[Integers],
        h: Integers,
        gradient: Integers,
        rate: int,
        product: Product,
        narrow: Narrower,
        noise: Integers | None = None,
    ) -> None:
        """Apply a step of gradient descent on the sum of the samples' losses.

        Parameters
        ----------
        inputs : sequence of array of int, (n, inputs)
            Input of each adapter, Q8.16.
        h : array of int, (n, adapters * rank)
            Hidden values, Q8.16.
        gradient : array of int, (n, classes)
            Gradient of each sample's loss with respect to its logits, Q4.12.
        rate : int
            Learning rate of a sample with `RATE_FRACTION` fraction bits.
        noise : array of int, (updated parameters,), optional
            Uniform integers of `NOISE_BITS` bits for stochastic rounding; by default to nearest.
        """
        dh = self.hidden_gradient(gradient, product, narrow)
        by_adapter = np.split(dh, len(self.a), axis=1)
        sums = [product(x.T, part).reshape(-1) for x, part in zip(inputs, by_adapter, strict=True)]
        if not self.shape.selects:
            sums.append(product(gradient.T, h).reshape(-1))
        total = narrow(np.concatenate(sums), PRODUCT_FRACTION, BATCH_GRADIENT)
        updated = self.flat[: self.shape.updated]
        stepped = (updated << NOISE_BITS) - total * rate
        updated[:] = narrow(stepped, Q4_12.fraction + NOISE_BITS, Q4_12, noise)


Tuned = Literal["layer", "biases"]
"""Weights and biases of the last layer, or its biases alone."""


def last_layer_sizes(last: Stage, tuned: Tuned, rank: int) -> AdapterSizes:
    """Sizes of the adapters that tune the last layer; in every network it is fully connected."""
    inputs = 1 if tuned == "biases" else last.inputs + 1
    return AdapterSizes((inputs,) * -(-last.biases // rank), last.biases, rank, selects=True)


def untuned_layer(sizes: AdapterSizes) -> Adapters:
    """Adapters before tuning: A is 0, B selects the classes."""
    adapters = Adapters(sizes, np.zeros(sizes.parameters, np.int64))
    adapters.b[:] = np.eye(*adapters.b.shape, dtype=np.int64) << Q4_12.fraction
    return adapters


def adapter_input(values: Integers, sizes: AdapterSizes) -> Integers:
    """Input of each adapter, (n, inputs) in Q8.16, from the input of the last layer."""
    ones = np.full((len(values), 1), 1 << Q8_16.fraction, np.int64)
    return ones if sizes.inputs[0] == 1 else np.concatenate([values, ones], axis=1)


def added(adapters: Adapters) -> tuple[Integers, Integers]:
    """Updates of the weights, (classes, inputs or 0), and of the biases, (classes,), in Q4.12: the rows of A."""
    rows = np.concatenate([a.T for a in adapters.a])[: adapters.shape.classes]
    return rows[:, :-1], rows[:, -1]
