"""Preset transformers on samples: a small vision transformer for scikit-learn's digits, a large MLP for MNIST."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..fixed import Integers
from .blocks import SelfAttention
from .builder import INPUTS, TransformerBuilder
from .sample_model import SampleTransformer


def patches(channels: int, side: int, patch: int) -> Integers:
    """Places of square patches of an image, row by row, behind a class token: (1 + patches, values of a patch)."""
    numbers = np.arange(channels * side * side).reshape(channels, side // patch, patch, side // patch, patch)
    found = numbers.transpose(1, 3, 0, 2, 4).reshape(-1, channels * patch * patch)
    return np.concatenate([np.full_like(found[:1], -1), found])


def vit_digits(seed: int = 0) -> SampleTransformer:
    """Vision transformer for images of 8 x 8: 16 patches and a class token, 2 layers, hidden 64, 4 heads, pre-norm.

    Parameters
    ----------
    seed : int
        Seed of the initial weights.
    """
    places, hidden, wide, heads, classes = patches(1, 8, 2), 64, 128, 4, 10
    made, random = TransformerBuilder("vit-digits", places.shape[1]), np.random.default_rng(seed)

    def linear(title: str, read: int, outputs: int, inputs: int) -> int:
        weight: NDArray[np.float64] = random.normal(0, inputs**-0.5, (outputs, inputs))
        return made.linear(title, read, weight.astype(np.float32), np.zeros(outputs, np.float32))

    def norm(title: str, read: int) -> int:
        return made.layer_norm(title, read, np.ones(hidden, np.float32), np.zeros(hidden, np.float32), 1e-6)

    x = linear("patches", INPUTS, hidden, places.shape[1])
    x = made.positions("positions", x, random.normal(0, 0.1, (len(places), hidden)).astype(np.float32))
    for layer in range(2):
        normed = norm(f"{layer}.norm1", x)
        queries, keys, values = (linear(f"{layer}.{one}", normed, hidden, hidden) for one in ("query", "key", "value"))
        mixed = made.attention(
            f"{layer}.attention", (queries, keys, values), SelfAttention(heads, heads, hidden // heads)
        )
        x = made.residual(f"{layer}.sum1", x, linear(f"{layer}.output", mixed, hidden, hidden))
        up = made.activation(f"{layer}.gelu", linear(f"{layer}.up", norm(f"{layer}.norm2", x), wide, hidden), "gelu")
        x = made.residual(f"{layer}.sum2", x, linear(f"{layer}.down", up, hidden, wide))
    linear("head", made.pool("class token", norm("norm", x), "first"), classes, hidden)
    network, parameters = made.finish()
    names = {name: f"{network.titles[name[0]]}.{name[1]}" for name in parameters}
    return SampleTransformer(network, parameters, (1, 8, 8), places, names)


def mlp_20m(seed: int = 0) -> SampleTransformer:
    """Perceptron for images of 28 x 28, 784-4096-4096-10 with ReLU: 20 million weights, and a sample is one token.

    Parameters
    ----------
    seed : int
        Seed of the initial weights.
    """
    sizes = (784, 4096, 4096, 10)
    made, random = TransformerBuilder("mlp-20m", sizes[0]), np.random.default_rng(seed)
    x = made.pool("sample", INPUTS, "first")
    for number, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        weight: NDArray[np.float64] = random.normal(0, (2 / inputs) ** 0.5, (outputs, inputs))
        x = made.linear(f"layer{number}", x, weight.astype(np.float32), np.zeros(outputs, np.float32))
        if outputs != sizes[-1]:
            x = made.activation(f"relu{number}", x, "relu")
    network, parameters = made.finish()
    names = {name: f"{network.titles[name[0]]}.{name[1]}" for name in parameters}
    return SampleTransformer(network, parameters, (1, 28, 28), np.arange(sizes[0])[None], names)


TRANSFORMERS: dict[str, Callable[[int], SampleTransformer]] = {"vit-digits": vit_digits, "mlp-20m": mlp_20m}
"""Makers of the presets, by name; each takes the seed of its initial weights."""
