"""Transformer on samples of equal shape, for example images in patches; PyTorch module; presets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import UserError
from ..fixed import Integers
from ..models.layers import Shape
from .blocks import Linear, Parameters, SelfAttention, Transformer
from .builder import INPUTS, TransformerBuilder
from .float_model import run_tensors


@dataclass(frozen=True, eq=False)
class SampleTransformer:
    """Transformer, tensors, and the map from a sample to token rows.

    A class token is a row of zeros: the learned part belongs to the token's position. Raises `UserError` if the network
    has outputs for each token, `places` do not fit the network's inputs, or there are too many tokens.

    Parameters
    ----------
    parameters : mapping
        Float tensors.
    input_shape : tuple of int
        Shape of a sample.
    places : array of int, (tokens, features)
        Flat index, in C order, of the sample's value for each feature; -1 for a zero.
    tensor_names : dict of (int, str) to str
        Name of each tensor in the user's model.
    """

    network: Transformer
    parameters: Parameters
    input_shape: Shape
    places: Integers
    tensor_names: dict[tuple[int, str], str]

    def __post_init__(self) -> None:
        tokens, features = self.places.shape
        if features != self.network.features or not -1 <= self.places.min() <= self.places.max() < prod(
            self.input_shape
        ):
            raise UserError(f"{self.network.name} takes {self.network.features} features, not those of {tokens} tokens")
        self.network.check_lengths((tokens,))
        if not self.network.shapes[-1][1]:
            raise UserError(f"{self.network.name} gives outputs for each token: it needs a pooling and a head")

    @property
    def name(self) -> str:
        return self.network.name

    @property
    def tokens(self) -> int:
        return len(self.places)

    @property
    def classes(self) -> int:
        return self.network.shapes[-1][0]

    def rows(self, samples: NDArray[Any]) -> NDArray[Any]:
        """Token rows of samples of any type, (n, tokens, features).

        Raises `UserError` if samples have another shape.
        """
        if samples.shape[1:] != self.input_shape:
            raise UserError(f"{self.network.name} takes samples of {self.input_shape}, not of {samples.shape[1:]}")
        flat = np.pad(samples.reshape(len(samples), -1), ((0, 0), (0, 1)))
        rows: NDArray[Any] = flat[:, self.places]
        return rows


class SampleModule(nn.Module):
    """Module of a `SampleTransformer`: samples (n, ...) to logits, with its tensors as float32 parameters.

    All tensors of `model` need names: they name the parameters.
    """

    def __init__(self, model: SampleTransformer) -> None:
        super().__init__()
        self._model = model
        for name, values in model.parameters.items():
            owner: nn.Module = self
            *parts, leaf = model.tensor_names[name].split(".")
            for number, part in enumerate(parts, 1):
                if part not in dict(owner.named_children()):
                    matrix = number == len(parts) and isinstance(model.network.operations[name[0]], Linear)
                    # an empty `torch.nn.Linear`: sensitive weights are selected from layers of this class
                    owner.add_module(part, nn.Linear(1, 1, bias=False, device="meta") if matrix else nn.Module())
                owner = owner.get_submodule(part)
            owner.register_parameter(leaf, nn.Parameter(torch.tensor(values, dtype=torch.float32)))
        self.register_buffer("_places", torch.from_numpy(model.places), persistent=False)

    def forward(self, samples: Tensor) -> Tensor:
        flat = nn.functional.pad(samples.flatten(1), (0, 1))
        rows = flat[:, self._places].flatten(0, 1)  # type: ignore[index]
        return run_tensors(self._model.network, self._named, rows, (self._model.tokens,) * len(samples))

    @property
    def _named(self) -> dict[tuple[int, str], Tensor]:
        return {name: self.get_parameter(title) for name, title in self._model.tensor_names.items()}

    def parameters_as_trained(self) -> Parameters:
        return {name: parameter.detach().cpu().numpy().copy() for name, parameter in self._named.items()}


def patches(channels: int, side: int, patch: int) -> Integers:
    """Indices of square patches of an image, row by row, after a class token: (1 + patches, values of a patch)."""
    numbers = np.arange(channels * side * side).reshape(channels, side // patch, patch, side // patch, patch)
    indices = numbers.transpose(1, 3, 0, 2, 4).reshape(-1, channels * patch * patch)
    return np.concatenate([np.full_like(indices[:1], -1), indices])


def vit_digits(seed: int = 0) -> SampleTransformer:
    """Vision transformer for 8 x 8 images: 16 patches and a class token, 2 layers, hidden 64, 4 heads, pre-norm.

    `seed` sets the initial weights.
    """
    places, hidden, wide, heads, classes = patches(1, 8, 2), 64, 128, 4, 10
    builder, random = TransformerBuilder("vit-digits", places.shape[1]), np.random.default_rng(seed)

    def linear(title: str, read: int, outputs: int, inputs: int) -> int:
        weight: NDArray[np.float64] = random.normal(0, inputs**-0.5, (outputs, inputs))
        return builder.linear(title, read, weight.astype(np.float32), np.zeros(outputs, np.float32))

    def norm(title: str, read: int) -> int:
        return builder.layer_norm(title, read, np.ones(hidden, np.float32), np.zeros(hidden, np.float32), 1e-6)

    x = linear("patches", INPUTS, hidden, places.shape[1])
    x = builder.positions("positions", x, random.normal(0, 0.1, (len(places), hidden)).astype(np.float32))
    for layer in range(2):
        normed = norm(f"{layer}.norm1", x)
        queries, keys, values = (
            linear(f"{layer}.{projection}", normed, hidden, hidden) for projection in ("query", "key", "value")
        )
        mixed = builder.attention(
            f"{layer}.attention", (queries, keys, values), SelfAttention(heads, heads, hidden // heads)
        )
        x = builder.residual(f"{layer}.sum1", x, linear(f"{layer}.output", mixed, hidden, hidden))
        up = builder.activation(f"{layer}.gelu", linear(f"{layer}.up", norm(f"{layer}.norm2", x), wide, hidden), "gelu")
        x = builder.residual(f"{layer}.sum2", x, linear(f"{layer}.down", up, hidden, wide))
    linear("head", builder.pool("class token", norm("norm", x), "first"), classes, hidden)
    network, parameters = builder.finish()
    names = {name: f"{network.titles[name[0]]}.{name[1]}" for name in parameters}
    return SampleTransformer(network, parameters, (1, 8, 8), places, names)


def mlp_20m(seed: int = 0) -> SampleTransformer:
    """MLP for 28 x 28 images, 784-4096-4096-10 with ReLU: 20 million weights, one token per sample.

    `seed` sets the initial weights.
    """
    sizes = (784, 4096, 4096, 10)
    builder, random = TransformerBuilder("mlp-20m", sizes[0]), np.random.default_rng(seed)
    x = builder.pool("sample", INPUTS, "first")
    for number, (inputs, outputs) in enumerate(pairwise(sizes), 1):
        weight: NDArray[np.float64] = random.normal(0, (2 / inputs) ** 0.5, (outputs, inputs))
        x = builder.linear(f"layer{number}", x, weight.astype(np.float32), np.zeros(outputs, np.float32))
        if outputs != sizes[-1]:
            x = builder.activation(f"relu{number}", x, "relu")
    network, parameters = builder.finish()
    names = {name: f"{network.titles[name[0]]}.{name[1]}" for name in parameters}
    return SampleTransformer(network, parameters, (1, 28, 28), np.arange(sizes[0])[None], names)


TRANSFORMERS: dict[str, Callable[[int], SampleTransformer]] = {"vit-digits": vit_digits, "mlp-20m": mlp_20m}
"""Constructors of the presets; the argument is the seed of the initial weights."""
