"""PyTorch module of a network's description: one child per layer, named by the layer's number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import UserError
from .activations import Nonlinearity
from .batch_norm import NormTensors
from .element_order import ElementOrder
from .layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Convolution,
    Depthwise,
    Flatten,
    Layer,
    Linear,
    MaxPool,
    Pair,
    Sides,
    Weighted,
)
from .network import Network
from .stages import Sources, Stage, chain


class NetworkModule(nn.Sequential):
    """Layers in the order of a description, with their input layers.

    Parameters
    ----------
    layers : nn.Module
    sources : tuple of tuple of int
        As of `Network`; empty for a chain.
    titles : sequence of str, optional
        Names of the layers in the imported model; by default their numbers.
    tensor_names : mapping of str to str, optional
        Name in the imported model's state by name in this module's state, for the tensors that are equal in both; by
        default all tensors with their names.

    Attributes
    ----------
    scales : dict of int to (NormTensors, dict of str to str)
        Tensors, and their names, of each batch norm imported as a depthwise convolution, by layer.
    orders : dict of int to ElementOrder
        Order of each weight with another shape or order in the imported model, by layer.
    samples : ElementOrder, optional
        Order from the imported model's samples to the description's, where they differ.
    left_to_host : list of str
        Operations on the logits that no layer has: ``softmax``.
    """

    def __init__(
        self,
        *layers: Any,
        sources: Sources = (),
        titles: Sequence[str] | None = None,
        tensor_names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(*layers)
        self.sources = sources
        self.titles = list(map(str, range(len(self)))) if titles is None else list(titles)
        self.tensor_names = {name: name for name in self.state_dict()} if tensor_names is None else dict(tensor_names)
        self.scales: dict[int, tuple[NormTensors, dict[str, str]]] = {}
        self.orders: dict[int, ElementOrder] = {}
        self.samples: ElementOrder | None = None
        self.left_to_host: list[str] = []

    @property
    def reads(self) -> Sources:
        """Input layers of each layer, written out for a chain."""
        return self.sources or chain(len(self))

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the last layer."""
        if self.sources:
            return self.outputs(x)[-1]
        for layer in self:
            x = layer(x)
        return x

    def outputs(self, x: Tensor) -> list[Tensor]:
        """Outputs of all layers."""
        values = [x]
        for layer, read in zip(self, self.reads, strict=True):
            values.append(layer(*(values[at + 1] for at in read)))
        return values[1:]

    def __getitem__(self, at: Any) -> Any:
        """Layer with this number, or network of a slice of layers.

        Raises
        ------
        UserError
            If layers of the slice read layers before its predecessor.
        """
        if not isinstance(at, slice):
            return super().__getitem__(at)
        first, last, _ = at.indices(len(self))
        read = self.reads[first:last]
        for number, own in enumerate(read, start=first):
            if first and min(own) < first - 1:
                raise UserError(f"a network is not cut before layer {first}: layer {number} reads layer {min(own)}")
        found = NetworkModule(OrderedDict(list(self._modules.items())[at]))
        found.sources = tuple(tuple(one - first for one in own) for own in read)
        found.titles = self.titles[first:last]
        return found


class PaddedConvolution(nn.Conv2d):
    """Convolution with a padding of each side: top, bottom, left, right; `settings` are those of `Conv2d`."""

    def __init__(self, inputs: int, outputs: int, kernel: Pair, sides: Sides, **settings: Any) -> None:
        super().__init__(inputs, outputs, kernel, **settings)
        self.sides = sides

    def forward(self, x: Tensor) -> Tensor:
        """Convolution of the padded input."""
        top, bottom, left, right = self.sides
        return super().forward(functional.pad(x, (left, right, top, bottom)))


class VectorScale(nn.Conv2d):
    """Depthwise convolution of a vector: a factor and a bias per feature."""

    def forward(self, x: Tensor) -> Tensor:
        """Scaled features."""
        return super().forward(x[:, :, None, None]).flatten(1)


class PaddedMaxPool(nn.MaxPool2d):
    """Max-pool with a padding of each side: top, bottom, left, right."""

    def __init__(self, size: Pair, stride: Pair, padding: Sides) -> None:
        super().__init__(size, stride)
        top, bottom, left, right = padding
        self._sides = left, right, top, bottom

    def forward(self, input: Tensor) -> Tensor:
        """Largest value of each window."""
        padded = functional.pad(input, self._sides, value=float("-inf"))
        return functional.max_pool2d(padded, self.kernel_size, self.stride)


class Activated(nn.Module):
    """Elementwise activation."""

    def __init__(self, activation: Nonlinearity) -> None:
        super().__init__()
        self._activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, in the shape of the input."""
        return self._activation.floats(x)


class Sum(nn.Module):
    """Sum of two tensors."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + y``."""
        return x + y


class Concatenation(nn.Module):
    """Concatenation along channels or features."""

    def forward(self, *values: Tensor) -> Tensor:
        """Concatenated inputs."""
        return torch.cat(values, 1)


def module_of(network: Network) -> NetworkModule:
    """PyTorch module of a description, initialised by PyTorch's defaults from its global generator."""
    modules: list[nn.Module] = []
    stages = iter(network.stages)
    stage: Stage | None = None
    begun: dict[int, Stage] = {}
    for number, (layer, read) in enumerate(zip(network.layers, network.reads, strict=True)):
        if isinstance(layer, Weighted):
            stage = begun[number] = next(stages)
        elif isinstance(layer, BatchNorm):
            stage = begun[read[0]]
        modules.append(_module(layer, stage))
    return NetworkModule(*modules, sources=network.sources)


def _module(layer: Layer, stage: Stage | None) -> nn.Module:
    match layer:
        case Nonlinearity():
            return Activated(layer)
        case MaxPool(size, stride, padding):
            return PaddedMaxPool(size, stride, padding) if any(padding) else nn.MaxPool2d(size, stride)
        case AveragePool(size):
            return nn.AvgPool2d(size)
        case Flatten():
            return nn.Flatten()
        case Add():
            return Sum()
        case Concat():
            return Concatenation()
    assert stage is not None, "a description has a layer with weights before its batch norms"
    match layer:
        case BatchNorm():
            return (nn.BatchNorm1d if len(stage.computed_shape) == 1 else nn.BatchNorm2d)(stage.biases)
        case Linear():
            return nn.Linear(stage.inputs, stage.biases)
        case Depthwise() if len(stage.computed_shape) == 1:
            return VectorScale(stage.biases, stage.biases, 1, groups=stage.biases)
    assert isinstance(layer, Convolution | Depthwise), "all other layers have been dealt with"
    groups = stage.channels if isinstance(layer, Depthwise) else layer.groups
    settings: dict[str, Any] = {"stride": layer.stride, "groups": groups}
    top, bottom, left, right = layer.padding
    if (top, left) == (bottom, right):
        return nn.Conv2d(stage.channels, stage.biases, layer.kernel, padding=(top, left), **settings)
    return PaddedConvolution(stage.channels, stage.biases, layer.kernel, layer.padding, **settings)
