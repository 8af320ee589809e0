"""Adapters that feed the last layer, in integers: forward, gradients, update (InstantFT, equations 1 and 3).

Every adapter reads a frozen activation x (Q8.16) and ends in the logits, so adapters are independent of each other and
no gradient propagates through the network. Parameters are Q4.12. Products are summed over a batch before rounding.

The last layer's own weights and biases are tuned as adapters, too: A is added to them, and B, which stays, selects.
Rank j of adapter k is class k * rank + j: its h is added to that logit alone, and the gradient at it is the logit's
own, both exactly. An adapter reads what the last layer reads, then a constant 1, whose part of A is added to the
biases; or the constant alone. Logits are rounded twice, the frozen layer's and h; a layer with the sum of both as its
weights rounds once.
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
"""Bits that an update drops, and the random bits of stochastic rounding."""


def rate_of(eta: float, batch: int) -> int:
    """Integer learning rate of a sample for the mean over `batch` samples: eta / batch * 2**20 to nearest.

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
    """Multiply an integer learning rate by a schedule's factor, to nearest, but to 1 rather than to 0."""
    return max(round(rate * factor), 1)


class AdapterSizes(NamedTuple):
    """Sizes of all adapters.

    Parameters
    ----------
    inputs : tuple of int
        Number of input values of each adapter.
    classes, rank : int
    selects : bool
        B is a constant, see `last_layer`: an update leaves it as it is.
    """

    inputs: tuple[int, ...]
    classes: int
    rank: int
    selects: bool = False

    @property
    def parameters(self) -> int:
        """Number of parameters of all adapters."""
        return self.rank * (sum(self.inputs) + self.classes * len(self.inputs))

    @property
    def updated(self) -> int:
        """Number of parameters that an update changes, the first ones: all, or all but B."""
        return self.rank * sum(self.inputs) if self.selects else self.parameters


class Adapters:
    """Parameters of all adapters: one vector in Q4.12, and views of it.

    Attributes
    ----------
    flat : array of int64, (shape.parameters,)
        All A, transposed, in the order of the adapters; then B.
    a : list of array, (inputs, rank)
        A of each adapter, transposed: a row has the ranks of one input.
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
        """Create adapters from each A (rank, inputs) and B (classes, rank), floats or integers of Q4.12."""
        parts = [*(np.asarray(one).T.reshape(-1) for one in a), np.concatenate(b, axis=1).reshape(-1)]
        flat: NDArray[np.generic] = np.concatenate(parts)
        return cls(shape, Q4_12.from_float(flat) if flat.dtype.kind == "f" else flat)

    def pairs(self) -> list[tuple[Integers, Integers]]:
        """Copies of (A, B) of each adapter: (rank, inputs), (classes, rank)."""
        count = len(self.a)
        return [(a.T.copy(), b.copy()) for a, b in zip(self.a, np.split(self.b, count, axis=1), strict=True)]

    def hidden(self, inputs: Sequence[Integers], product: Product, narrow: Narrower) -> Integers:
        """Compute h = A x of all adapters, concatenated.

        Parameters
        ----------
        inputs : sequence of array of int, (n, inputs)
            Input of each adapter, Q8.16.
        product, narrow : callable
            Matrix product and narrowing.

        Returns
        -------
        array of int64, (n, adapters * rank)
            Q8.16.
        """
        sums = [product(x, a) for x, a in zip(inputs, self.a, strict=True)]
        return narrow(np.concatenate(sums, axis=1), PRODUCT_FRACTION, Q8_16)

    def logits(self, base: Integers, h: Integers, product: Product, narrow: Narrower) -> Integers:
        """Compute base logits + the sum of all B h, (n, classes) in Q8.16: one exact sum, one rounding."""
        return narrow((base << Q4_12.fraction) + product(h, self.b.T), PRODUCT_FRACTION, Q8_16)

    def hidden_gradient(self, gradient: Integers, product: Product, narrow: Narrower) -> Integers:
        """Compute B' g of all adapters, concatenated: (n, adapters * rank) in Q4.12, from (n, classes) in Q4.12."""
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
        """Apply one step of gradient descent on the sum of the samples' losses.

        Parameters
        ----------
        inputs : sequence of array of int, (n, inputs)
            Input of each adapter, Q8.16.
        h : array of int, (n, adapters * rank)
            Q8.16.
        gradient : array of int, (n, classes)
            Gradient of each sample's loss with respect to its logits, Q4.12.
        rate : int
            Learning rate of a sample with `RATE_FRACTION` fraction bits.
        product, narrow : callable
            Matrix product and narrowing.
        noise : array of int, (parameters,), optional
            For each parameter that is updated, uniform integers of `NOISE_BITS` bits for stochastic rounding; by
            default to nearest.
        """
        dh = self.hidden_gradient(gradient, product, narrow)
        by_adapter = np.split(dh, len(self.a), axis=1)
        sums = [product(x.T, one).reshape(-1) for x, one in zip(inputs, by_adapter, strict=True)]
        if not self.shape.selects:
            sums.append(product(gradient.T, h).reshape(-1))
        total = narrow(np.concatenate(sums), PRODUCT_FRACTION, BATCH_GRADIENT)
        own = self.flat[: self.shape.updated]
        stepped = (own << NOISE_BITS) - total * rate
        own[:] = narrow(stepped, Q4_12.fraction + NOISE_BITS, Q4_12, noise)


Tuned = Literal["layer", "biases"]
"""Weights and biases of the last layer, or its biases alone."""


def last_layer_sizes(last: Stage, tuned: Tuned, rank: int) -> AdapterSizes:
    """Sizes of the adapters that tune the last layer, which is fully connected in every network."""
    inputs = 1 if tuned == "biases" else last.inputs + 1
    return AdapterSizes((inputs,) * -(-last.biases // rank), last.biases, rank, selects=True)


def untuned_layer(sizes: AdapterSizes) -> Adapters:
    """Make the adapters at the start: nothing is added."""
    adapters = Adapters(sizes, np.zeros(sizes.parameters, np.int64))
    adapters.b[:] = np.eye(*adapters.b.shape, dtype=np.int64) << Q4_12.fraction
    return adapters


def adapter_input(values: Integers, sizes: AdapterSizes) -> Integers:
    """Input of each adapter, (n, inputs) in Q8.16, from that of the last layer."""
    ones = np.full((len(values), 1), 1 << Q8_16.fraction, np.int64)
    return ones if sizes.inputs[0] == 1 else np.concatenate([values, ones], axis=1)


def added(adapters: Adapters) -> tuple[Integers, Integers]:
    """Split A into what is added to the weights, (classes, inputs or 0), and to the biases, (classes,), in Q4.12."""
    own = np.concatenate([a.T for a in adapters.a])[: adapters.shape.classes]
    return own[:, :-1], own[:, -1]
