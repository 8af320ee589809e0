"""Graph of layers of a user's model, with weights, names and places.

An importer adds layers; `LayerGraph.finish` returns their description and module.
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
from ...models.activations import ACTIVATIONS, Nonlinearity
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
        All axes; the constant may be a view of the tensor.
    unnamed : str
        Description of a constant without name.
    memory : tuple of array
        Source arrays of a copied tensor in the file.
    """

    axes: Axes = ()
    unnamed: str = "a constant"
    memory: tuple[NDArray[Any], ...] = ()

    @property
    def shown(self) -> str:
        """Name, or the description of an unnamed constant."""
        return self.name or self.unnamed

    @property
    def sizes(self) -> Shape:
        return tuple(prod(size for size, _ in axis) for axis in self.axes)

    @property
    def array(self) -> NDArray[Any]:
        """Values in the axes."""
        return self.viewed(self.tensor.detach().cpu().numpy())

    def viewed(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the tensor, or equally many others, in the axes."""
        flat = np.ascontiguousarray(values).reshape(-1)
        runs = [run for axis in self.axes for run in axis]
        strides = [stride * flat.itemsize for _, stride in runs]
        return as_strided(flat, [size for size, _ in runs], strides).reshape(self.sizes)


@dataclass
class GraphLayer:
    """Layer of a user's model.

    Parameters
    ----------
    sources : tuple of int
        Numbers of the input layers, -1 for the sample.
    tensors : dict of str to Tensor
        Those present, by PyTorch's names: weight, bias, running_mean, running_var.
    names : dict of str to str
        Names of these tensors in the model's state.
    eps : float
        Of a batch norm.
    scale : NormTensors, optional
        Tensors of an unfoldable batch norm, now a depthwise layer; `names` are their names.
    order : ElementOrder, optional
        Order from the model's weight to the layer's, if they differ; for a batch norm, from each of its tensors.
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
        arrays = {name: tensor.detach().cpu().double().numpy() for name, tensor in self.tensors.items()}
        mean, variance = arrays["running_mean"], arrays["running_var"]
        return NormTensors(mean, variance, arrays.get("weight"), arrays.get("bias"), self.eps)


class LayerGraph:
    """Layers of a user's model in the order of execution.

    Parameters
    ----------
    name : str
        Name of the model for messages.
    input_shape : tuple of int
        Shape of a sample.
    late : bool
        If true, maps are flattened directly before the first layer of vectors; if false, where the model does.

    Attributes
    ----------
    left_to_host : list of str
        Operations on the logits without a layer: ``softmax``.
    replaced : set of int
        Layers with a later replacement; they are dropped if unread.
    samples : ElementOrder, optional
        From the model's samples to the description's, if they differ.
    read_otherwise : function of a value
        Called with a value that is read as a map but is none.
    state_names : set of str
        Names of all tensors of the model.
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
        """Number of a new layer.

        Two successive pools of the same kind become a single pool. An activation or pool of a concatenation moves
        before the concatenation, to each part. The earlier layer stays for other readers.

        `instead_of` is a layer replaced by the new layer, for operators that together become a single layer. The
        earlier layer stays for other readers, and is dropped without them.

        Raises
        ------
        UserError
            If a weight is not finite.
        """
        if isinstance(layer.layer, Nonlinearity):
            layer = replace(layer, layer=layer.layer.in_range())
        if instead_of is not None:
            self.replaced.add(instead_of)
        for kind, tensor in layer.tensors.items():
            if not torch.isfinite(tensor).all():
                raise UserError(
                    f"{self.name}: {layer.names.get(kind, f'{layer.place.title}.{kind}')} has NaN or infinity"
                )
        source = layer.sources[0]
        if (
            isinstance(layer.layer, Nonlinearity | Pool)
            and source >= 0
            and isinstance(self.layers[source].layer, Concat)
        ):
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
        """Output of a new layer that reads these values.

        Parameters
        ----------
        shape : tuple of int
            Shape of the output.
        axes : tuple
            Axes of the output in the model.
        weights : mapping of str to Weight or None
            By PyTorch's names.
        order : ElementOrder, optional
            From the model's weight to the layer's.
        eps : float
            Of a batch norm.

        Raises
        ------
        UserError
            If the output is too large, or another layer shares the weight.
        """
        if reason := excess(shape):
            raise place.error(f"gives outputs, of which each {reason}")
        present = {kind: weight for kind, weight in weights.items() if weight is not None}
        if "weight" in present and not isinstance(layer, BatchNorm):
            self._check_memory(place, present["weight"])
        tensors = {kind: weight.tensor for kind, weight in present.items()}
        names = {kind: weight.name for kind, weight in present.items() if weight.name}
        read = tuple(source.layer for source in sources)
        number = self.add(GraphLayer(layer, read, place.of_layer, tensors, names, eps, order=order))
        return self.gives(number, shape, axes)

    def gives(self, number: int, shape: Shape, axes: Axes) -> Value:
        """Output of a layer with this shape and these axes."""
        self._shapes[number] = shape
        return Value(number, shape, axes)

    def viewed(self, place: Place, value: Value) -> Value:
        """Tensor in other axes: maps seen as a vector are flattened; a flattened vector can become maps again."""
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
        """The same tensor as the output of a vector layer."""
        if len(value.shape) == 1:
            return value
        shape = (prod(value.shape),)
        if not self._late or value.layer not in self._flat:
            self._flat[value.layer] = self.put(place, Flatten(), [value], shape, value.axes).layer
        return value._replace(layer=self._flat[value.layer], shape=shape)

    def output(self, value: Value) -> None:
        """Set the model's output.

        Raises
        ------
        UserError
            Unless it is the unchanged output of the last layer.
        """
        # views of the last layer's output are accepted, as of a dropout
        if value.layer != len(self.layers) - 1 or value.padding is not None:
            raise UserError(f"{self.name} gives the outputs of a layer that is not the last one")
        if joined(value.runs) != joined([(prod(value.shape), 1)]):
            raise UserError(f"{self.name} gives its outputs in another order than that of its last layer")
        if len(value.shape) == 1 and len(value.axes) != 1:
            raise UserError(f"{self.name} gives an output of {value.sizes}, not of (classes,)")
        self.left_to_host = [value.host] if value.host else []

    def finish(self) -> tuple[Network, NetworkModule]:
        """Description, and the module with float32 weights, in evaluation mode.

        An unfoldable batch norm becomes a depthwise convolution.

        Raises
        ------
        UserError
            If the layers have no hardware, share weights, or have weights of a wrong shape.
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
        numbers: list[int] = []
        read: set[int] = set()
        for number in reversed(range(len(self.layers))):
            if number not in self.replaced or number in read:
                numbers.append(number)
                read.update(self.layers[number].sources)
        new_number = {-1: -1} | {number: position for position, number in enumerate(reversed(numbers))}
        self.layers = [self.layers[number] for number in reversed(numbers)]
        for layer in self.layers:
            layer.sources = tuple(new_number[source] for source in layer.sources)

    def _check_owners(self) -> None:
        """Refuse two layers with shared memory of tensors."""
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
        """Refuse a weight with values of another layer's weight in the file."""
        for part in weight.memory:
            for other, first in self._weights:
                if first is not place and np.shares_memory(part, other):
                    raise place.error(
                        f"{weight.shown} is shared with {first.where}: each layer needs weights of its own"
                    )
            self._weights.append((part, place))

    def _name_layers(self) -> None:
        """Give each layer with tensors a unique title, from the weight's name or the place.

        Tensors missing in the model get names from the title, so no tensor of the model may have the same name.
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
            used = {other.rpartition(".")[0] for other in others if other.rpartition(".")[2] in TUNED_KINDS}
            layer.place = replace(layer.place, title=unused(title, titles | used))
            titles.add(layer.place.title)

    def _scale(self, layer: GraphLayer) -> None:
        """Turn a batch norm into a depthwise convolution of 1 x 1."""
        layer.scale = norm = layer.norm()
        channels = len(norm.mean)
        unit = StageParameters(np.ones((channels, 1, 1, 1)), np.zeros(channels))
        parameters = norm.ordered(layer.order).folded(unit, layer.place.title)
        layer.layer = Depthwise(1)
        layer.tensors = {"weight": torch.from_numpy(parameters.weight), "bias": torch.from_numpy(parameters.bias)}

    def _network(self) -> Network:
        layers, sources = tuple(node.layer for node in self.layers), tuple(node.sources for node in self.layers)
        try:
            return Network(self.name, self.input_shape, layers, sources)
        except LayerError as mistake:
            place = self.layers[mistake.number].place
            reason = re.sub(r"layers? (\d+)", lambda match: self.layers[int(match[1])].place.title, mistake.reason)
            raise place.error(place.title + reason) from None


def _both(first: Layer, second: Pool) -> Pool | None:
    """Pool with the effect of two successive pools; None without one."""
    if not isinstance(first, MaxPool | AveragePool) or type(first) is not type(second):
        return None
    gaps = any(step > size for step, size in zip(first.stride, first.size, strict=True))
    if gaps or any(first.padding) or any(second.padding):
        return None
    down, across = ((second.size[axis] - 1) * first.stride[axis] + first.size[axis] for axis in (0, 1))
    if isinstance(second, AveragePool):
        return AveragePool((down, across))
    rows, columns = (first.stride[axis] * second.stride[axis] for axis in (0, 1))
    return MaxPool((down, across), (rows, columns))


def _overlap(first: Tensor, second: Tensor) -> bool:
    return np.shares_memory(first.detach().cpu().numpy(), second.detach().cpu().numpy())


def _load(child: nn.Module, layer: GraphLayer) -> None:
    """Copy a layer's tensors to the module."""
    parameters: Mapping[str, Tensor | None] = {**dict(child.named_parameters()), **dict(child.named_buffers())}
    for name, target in parameters.items():
        tensor = layer.tensors.get(name)
        if tensor is not None and name == "weight" and layer.order is not None and layer.scale is None:
            tensor = torch.from_numpy(np.array(layer.order.taken(tensor.detach().cpu().numpy())))
        if tensor is not None and target is not None:
            if tensor.shape != target.shape:
                raise layer.place.error(f"has a {name} of {tuple(tensor.shape)}, not of {tuple(target.shape)}")
            with torch.no_grad():
                target.copy_(tensor)
        elif name in ("weight", "bias"):
            child.register_parameter(name, None)
    if isinstance(child, nn.BatchNorm1d | nn.BatchNorm2d):
        child.eps = layer.eps
        if child.num_batches_tracked is not None:
            child.num_batches_tracked.zero_()
