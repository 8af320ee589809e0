"""Graph of layers as an importer finds it in a user's model, with weights, names and places.

An importer adds layers one by one; `LayerGraph.finish` makes the description and its module of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import UserError
from ...models.activations import ACTIVATIONS, Activation
from ...models.batch_norm import NormTensors, StageParameters
from ...models.element_order import ElementOrder
from ...models.layers import (
    AveragePool,
    BatchNorm,
    Concat,
    Depthwise,
    Flatten,
    Layer,
    MaxPool,
    Pool,
    Shape,
    Weighted,
)
from ...models.module import NetworkModule, module_of
from ...models.names import RESERVED, TUNED_KINDS, unused
from ...models.network import Network
from ...models.stages import LayerError, excess
from ..graph import Constant, Place
from .axes import Axes, Value, joined

SUPPORTED = (
    f"convolution, linear, batch norm, {', '.join(kind.kinds for kind in ACTIVATIONS)}, max-pool, average pool, "
    "flatten, add, concatenation of channels, dropout"
)


@dataclass(frozen=True, eq=False)
class Weight(Constant):
    """Constant of a layer.

    Parameters
    ----------
    axes : tuple
        All its axes: it may be a view of the tensor.
    unnamed : str
        What it is, where it has no name.
    memory : tuple of array
        Parts of a file's tensors of which it is made, if its own tensor is a copy.
    """

    axes: Axes = ()
    unnamed: str = "a constant"
    memory: tuple[NDArray[Any], ...] = ()

    @property
    def shown(self) -> str:
        """Name, or what it is without one."""
        return self.name or self.unnamed

    @property
    def sizes(self) -> Shape:
        """Sizes of its axes."""
        return tuple(prod(size for size, _ in axis) for axis in self.axes)

    @property
    def array(self) -> NDArray[Any]:
        """Values in its axes."""
        return self.viewed(self.tensor.detach().cpu().numpy())

    def viewed(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the tensor, or others in its place, in the axes."""
        flat = np.ascontiguousarray(values).reshape(-1)
        runs = [run for axis in self.axes for run in axis]
        strides = [stride * flat.itemsize for _, stride in runs]
        return as_strided(flat, [size for size, _ in runs], strides).reshape(self.sizes)


@dataclass
class GraphLayer:
    """Layer of a user's model.

    Parameters
    ----------
    layer : Layer
    sources : tuple of int
        Numbers of the layers that it reads, -1 for the sample.
    place : Place
    tensors : dict of str to Tensor
        By PyTorch's names: weight, bias, running_mean, running_var; those that it has.
    names : dict of str to str
        Names of these tensors in the state of the model.
    eps : float
        Of a batch norm.
    scale : NormTensors, optional
        The batch norm that the layer is in the model, with `names` of its tensors, where it could not be folded.
    order : ElementOrder, optional
        Way from its weight, as it is in the model, to that of the layer, where they differ; of a batch norm from each
        of its tensors.
    """

    layer: Layer
    sources: tuple[int, ...]
    place: Place
    tensors: dict[str, Tensor] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    eps: float = 0.0
    scale: NormTensors | None = None
    order: ElementOrder | None = None

    def norm(self) -> NormTensors:
        """Tensors of a batch norm."""
        arrays = {name: one.detach().cpu().double().numpy() for name, one in self.tensors.items()}
        mean, variance = arrays["running_mean"], arrays["running_var"]
        return NormTensors(mean, variance, arrays.get("weight"), arrays.get("bias"), self.eps)


class LayerGraph:
    """Layers of a user's model in the order in which they run.

    Parameters
    ----------
    name : str
        Name of the model for messages.
    input_shape : tuple of int
        Shape of one sample.
    late : bool
        Whether maps are flattened, once, before the first layer that reads a vector, and not where the model does it.

    Attributes
    ----------
    left_to_host : list of str
        What the model does with the logits that no layer does: ``softmax``.
    replaced : set of int
        Layers whose work others do, too: they go if no other layer reads them.
    samples : ElementOrder, optional
        Way from the model's samples to those of the description, where they differ.
    read_otherwise : function of a value
        Called with a value that is read as a map and is none.
    state_names : set of str
        Names of all tensors of the model, of those that no layer has, too.
    """

    def __init__(self, name: str, input_shape: Shape, late: bool = False) -> None:
        self.name, self.input_shape = name, input_shape
        self.layers: list[GraphLayer] = []
        self.left_to_host: list[str] = []
        self.samples: ElementOrder | None = None
        self.read_otherwise: Callable[[Value], None] = lambda value: None
        self.replaced: set[int] = set()
        self.state_names: set[str] = set()
        self._shapes = {-1: input_shape}
        self._late, self._flat = late, dict[int, int]()
        self._weights: list[tuple[NDArray[Any], Place]] = []

    def add(self, layer: GraphLayer, instead_of: int | None = None) -> int:
        """Add a layer, and return its number.

        A pool behind one of its kind becomes one that does both. An activation or a pool behind a concatenation becomes
        one behind each of its parts, which is the same, and the concatenation of these. The earlier layer stays for its
        other readers.

        Parameters
        ----------
        layer : GraphLayer
        instead_of : int, optional
            Layer that it does the work of, too. A rewrite of several operators into one layer is so right whatever else
            the model does: the earlier layer stays as it is for those that read it, and goes if none does.

        Raises
        ------
        UserError
            If it has weights that are not finite.
        """
        if isinstance(layer.layer, Activation):
            layer = replace(layer, layer=layer.layer.in_range())
        if instead_of is not None:
            self.replaced.add(instead_of)
        for kind, tensor in layer.tensors.items():
            if not torch.isfinite(tensor).all():
                raise UserError(
                    f"{self.name}: {layer.names.get(kind, f'{layer.place.title}.{kind}')} has NaN or infinity"
                )
        source = layer.sources[0]
        if isinstance(layer.layer, Activation | Pool) and source >= 0 and isinstance(self.layers[source].layer, Concat):
            joined = self.layers[source]
            parts = tuple(self.add(replace(layer, sources=(part,))) for part in joined.sources)
            return self.add(replace(joined, sources=parts), instead_of=source)
        if isinstance(layer.layer, Pool) and source >= 0 and (both := _both(self.layers[source].layer, layer.layer)):
            return self.add(replace(layer, layer=both, sources=self.layers[source].sources), instead_of=source)
        self.layers.append(layer)
        return len(self.layers) - 1

    def put(
        self,
        place: Place,
        layer: Layer,
        sources: Sequence[Value],
        shape: Shape,
        axes: Axes,
        weights: Mapping[str, Weight | None] = {},
        order: ElementOrder | None = None,
        eps: float = 0.0,
    ) -> Value:
        """Add a layer that reads these values.

        Parameters
        ----------
        place : Place
        layer : Layer
        sources : sequence of Value
        shape : tuple of int
            Shape of its outputs.
        axes : tuple
            Axes of these in the model.
        weights : mapping of str to Weight or None
            By PyTorch's names.
        order : ElementOrder, optional
            Way from the model's weight to the layer's.
        eps : float
            Of a batch norm.

        Raises
        ------
        UserError
            If the outputs are too large, or the weight is another layer's, too.
        """
        if reason := excess(shape):
            raise place.error(f"gives outputs, of which each {reason}")
        given = {kind: weight for kind, weight in weights.items() if weight is not None}
        if "weight" in given and not isinstance(layer, BatchNorm):
            self._check_memory(place, given["weight"])
        tensors = {kind: weight.tensor for kind, weight in given.items()}
        names = {kind: weight.name for kind, weight in given.items() if weight.name}
        read = tuple(source.layer for source in sources)
        number = self.add(GraphLayer(layer, read, place.of_layer, tensors, names, eps, order=order))
        return self.gives(number, shape, axes)

    def gives(self, number: int, shape: Shape, axes: Axes) -> Value:
        """Outputs of a layer, of this shape, in these axes."""
        self._shapes[number] = shape
        return Value(number, shape, axes)

    def viewed(self, place: Place, value: Value) -> Value:
        """Tensor in other axes: maps that become a vector are flattened, and a vector of maps can be maps again."""
        if self._late:
            return value
        if len(value.axes) == 1:
            return self.flattened(place, value)
        if value.layer >= 0 and isinstance(self.layers[value.layer].layer, Flatten):
            self.replaced.add(value.layer)
            (before,) = self.layers[value.layer].sources
            return value._replace(layer=before, shape=self._shapes[before])
        return value

    def flattened(self, place: Place, value: Value) -> Value:
        """Tensor in the same axes, of a layer that gives a vector."""
        if len(value.shape) == 1:
            return value
        shape = (prod(value.shape),)
        if not self._late or value.layer not in self._flat:
            self._flat[value.layer] = self.put(place, Flatten(), [value], shape, value.axes).layer
        return value._replace(layer=self._flat[value.layer], shape=shape)

    def output(self, value: Value) -> None:
        """Take a value as the model's output.

        Raises
        ------
        UserError
            If it is not what the last layer gives, as it gives it.
        """
        # a view of the last layer's outputs, such as a dropout, is they themselves
        if value.layer != len(self.layers) - 1 or value.padding is not None:
            raise UserError(f"{self.name} gives the outputs of a layer that is not the last one")
        if joined(value.runs) != joined([(prod(value.shape), 1)]):
            raise UserError(f"{self.name} gives its outputs in another order than that of its last layer")
        if len(value.shape) == 1 and len(value.axes) != 1:
            raise UserError(f"{self.name} gives an output of {value.sizes}, not of (classes,)")
        self.left_to_host = [value.host] if value.host else []

    def finish(self) -> tuple[Network, NetworkModule]:
        """Make the description, and the module with the weights in float32, in evaluation mode.

        A batch norm that cannot be folded becomes a depthwise convolution.

        Raises
        ------
        UserError
            If the layers have no hardware, weights of another layer, or such as are not of its shape.
        """
        self._drop_replaced()
        self._check_owners()
        readers = Counter(source for layer in self.layers for source in layer.sources)
        for layer in self.layers:
            if isinstance(layer.layer, BatchNorm):
                (source,) = layer.sources
                before = self.layers[source].layer if source >= 0 else None
                if not isinstance(before, Weighted) or readers[source] > 1 or layer.order is not None:
                    self._scale(layer)
        network = self._network()
        self._name_layers()
        with torch.device("meta"):  # without drawing an unused initialisation
            module = module_of(network)
        module.to_empty(device="cpu")
        module.titles = [layer.place.title for layer in self.layers]
        module.tensor_names = {}
        module.left_to_host, module.samples = list(self.left_to_host), self.samples
        for number, (child, layer) in enumerate(zip(module, self.layers, strict=True)):
            _load(child, layer)
            if layer.order is not None:
                module.orders[number] = layer.order
            if layer.scale is not None:
                module.scales[number] = layer.scale, layer.names
                continue
            module.tensor_names |= {f"{number}.{kind}": name for kind, name in layer.names.items()}
        return network, module.eval()

    def _drop_replaced(self) -> None:
        """Drop replaced layers that no other layer reads."""
        kept: list[int] = []
        read: set[int] = set()
        for number in reversed(range(len(self.layers))):
            if number not in self.replaced or number in read:
                kept.append(number)
                read.update(self.layers[number].sources)
        now = {-1: -1} | {number: at for at, number in enumerate(reversed(kept))}
        self.layers = [self.layers[number] for number in reversed(kept)]
        for layer in self.layers:
            layer.sources = tuple(now[source] for source in layer.sources)

    def _check_owners(self) -> None:
        """Refuse a tensor of two layers: one memory, whatever its names are."""
        owners: dict[int, list[tuple[Tensor, Place]]] = {}
        for layer in self.layers:
            for kind, tensor in layer.tensors.items():
                others = owners.setdefault(tensor.untyped_storage().data_ptr(), [])
                for other, first in others:
                    if tensor.data_ptr() == other.data_ptr() or _overlap(tensor, other):
                        name = layer.names.get(kind, f"its {kind}")
                        raise layer.place.error(
                            f"{name} is shared with {first.where}: each layer needs weights of its own"
                        )
                others.append((tensor, layer.place))

    def _check_memory(self, place: Place, weight: Weight) -> None:
        """Refuse a weight of a file some value of which is in another layer's weight."""
        for part in weight.memory:
            for other, first in self._weights:
                if first is not place and np.shares_memory(part, other):
                    raise place.error(
                        f"{weight.shown} is shared with {first.where}: each layer needs weights of its own"
                    )
            self._weights.append((part, place))

    def _name_layers(self) -> None:
        """Give each layer with tensors a title of its own: that of its weight, else the place's.

        Tensors that the model does not have are named behind the title, so no other tensor may have such a name.
        """
        names = self.state_names.union(*(layer.names.values() for layer in self.layers))
        if RESERVED in names:
            raise UserError(f"{self.name}: a tensor is called {RESERVED}, as no file of safetensors may: rename it")
        titles: set[str] = set()
        for layer in self.layers:
            if not layer.tensors:
                continue
            weight, others = layer.names.get("weight", ""), names.difference(layer.names.values())
            title = weight.removesuffix(".weight") if weight.endswith(".weight") else layer.place.title
            behind = {one.rpartition(".")[0] for one in others if one.rpartition(".")[2] in TUNED_KINDS}
            layer.place = replace(layer.place, title=unused(title, titles | behind))
            titles.add(layer.place.title)

    def _scale(self, layer: GraphLayer) -> None:
        """Turn a batch norm into a depthwise convolution of 1 x 1."""
        layer.scale = norm = layer.norm()
        channels = len(norm.mean)
        ones = StageParameters(np.ones((channels, 1, 1, 1)), np.zeros(channels))
        parameters = norm.ordered(layer.order).folded(ones, layer.place.title)
        layer.layer = Depthwise(1)
        layer.tensors = {"weight": torch.from_numpy(parameters.weight), "bias": torch.from_numpy(parameters.bias)}

    def _network(self) -> Network:
        layers, sources = tuple(one.layer for one in self.layers), tuple(one.sources for one in self.layers)
        try:
            return Network(self.name, self.input_shape, layers, sources)
        except LayerError as mistake:
            place = self.layers[mistake.number].place
            reason = re.sub(r"layers? (\d+)", lambda found: self.layers[int(found[1])].place.title, mistake.reason)
            raise place.error(place.title + reason) from None


def _both(first: Layer, second: Pool) -> Pool | None:
    """Pool that does the work of two of one kind, the first one without gaps between its windows; None without such."""
    if not isinstance(first, MaxPool | AveragePool) or type(first) is not type(second):
        return None
    gaps = any(step > size for step, size in zip(first.stride, first.size, strict=True))
    if gaps or any(first.padding) or any(second.padding):
        return None
    down, across = ((second.size[at] - 1) * first.stride[at] + first.size[at] for at in (0, 1))
    if isinstance(second, AveragePool):
        return AveragePool((down, across))
    rows, columns = (first.stride[at] * second.stride[at] for at in (0, 1))
    return MaxPool((down, across), (rows, columns))


def _overlap(first: Tensor, second: Tensor) -> bool:
    return np.shares_memory(first.detach().cpu().numpy(), second.detach().cpu().numpy())


def _load(child: nn.Module, layer: GraphLayer) -> None:
    """Copy a layer's tensors into its module."""
    parameters: Mapping[str, Tensor | None] = {**dict(child.named_parameters()), **dict(child.named_buffers())}
    for name, own in parameters.items():
        given = layer.tensors.get(name)
        if given is not None and name == "weight" and layer.order is not None and layer.scale is None:
            given = torch.from_numpy(np.array(layer.order.taken(given.detach().cpu().numpy())))
        if given is not None and own is not None:
            if given.shape != own.shape:
                raise layer.place.error(f"has a {name} of {tuple(given.shape)}, not of {tuple(own.shape)}")
            with torch.no_grad():
                own.copy_(given)
        elif name in ("weight", "bias"):
            child.register_parameter(name, None)
    if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
        child.eps = layer.eps
        if child.num_batches_tracked is not None:
            child.num_batches_tracked.zero_()
