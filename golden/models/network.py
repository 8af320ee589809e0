"""Description of a network, from which training, the integer job, the cost model and the RTL are derived.

A description is a sequence of layers. `Network.stages` is its normal form, which the hardware runs: each stage is one
layer with weights, its folded batch norm, and the ReLU and max-pool that follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from ..errors import UserError

Shape = tuple[int, ...]
"""Shape of one sample: (channels, height, width) or (features,)."""


@dataclass(frozen=True)
class Convolution:
    """2-D convolution with bias, square kernel, stride 1.

    Parameters
    ----------
    channels : int
        Output channels.
    kernel : int
        Height and width of the kernel.
    padding : int
        Zeros on each side.
    """

    channels: int
    kernel: int
    padding: int = 0


@dataclass(frozen=True)
class Linear:
    """Fully connected layer with bias."""

    features: int


@dataclass(frozen=True)
class BatchNorm:
    """Batch norm; must directly follow a convolution or a fully connected layer, into which it is folded."""


@dataclass(frozen=True)
class Relu:
    """ReLU: max(x, 0)."""


@dataclass(frozen=True)
class MaxPool:
    """Max-pool of size x size with stride `size`; rows and columns that do not fill a window are dropped."""

    size: int


@dataclass(frozen=True)
class Flatten:
    """Flatten (channels, height, width) to one vector, channels slowest."""


Layer = Convolution | Linear | BatchNorm | Relu | MaxPool | Flatten


@dataclass(frozen=True)
class Stage:
    """One layer with weights, and the layers without weights that follow it.

    Parameters
    ----------
    layer : Convolution or Linear
    input_shape : tuple of int
        Output shape of the stage before; a fully connected stage after a convolution has (C, H, W) here, and flattens.
    computed_shape : tuple of int
        Output shape of the layer itself.
    output_shape : tuple of int
        Output shape after the max-pool.
    batch_norm, relu : bool
    pool : int
        Size of the max-pool, 1 for none.
    """

    layer: Convolution | Linear
    input_shape: Shape
    computed_shape: Shape
    output_shape: Shape
    batch_norm: bool = False
    relu: bool = False
    pool: int = 1

    @property
    def inputs(self) -> int:
        """Number of input values of a sample, which an adapter of this stage reads."""
        return prod(self.input_shape)

    @property
    def channels(self) -> int:
        """Number of input channels, each with its own scale in the forward cache; 1 for a vector."""
        return self.input_shape[0] if len(self.input_shape) == 3 else 1

    @property
    def biases(self) -> int:
        """Number of biases: output channels or features."""
        return self.computed_shape[0]

    @property
    def weight_shape(self) -> Shape:
        """Shape of the weight as in PyTorch: (out, in, kernel, kernel) or (out, in)."""
        if isinstance(self.layer, Convolution):
            return self.biases, self.input_shape[0], self.layer.kernel, self.layer.kernel
        return self.biases, self.inputs

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return prod(self.weight_shape) + self.biases

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates of a sample."""
        return prod(self.weight_shape) * prod(self.computed_shape[1:])

    @property
    def forward_flops(self) -> int:
        """Operations of a sample's forward pass; a multiply-accumulate is two.

        The bias is added to each value, a ReLU compares each, a max-pool of n x n makes n * n - 1 comparisons.
        """
        pooling = prod(self.output_shape) * (self.pool**2 - 1) if self.pool > 1 else 0
        return 2 * self.macs + prod(self.computed_shape) * (1 + self.relu) + pooling


@dataclass(frozen=True)
class Network:
    """Sequential network.

    Parameters
    ----------
    name : str
    input_shape : tuple of int
        (channels, height, width) or (features,).
    layers : tuple of Layer

    Raises
    ------
    UserError
        If the layers do not fit each other, or the network does not end in a fully connected layer.
    """

    name: str
    input_shape: Shape
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        if len(self.input_shape) not in (1, 3) or min(self.input_shape) < 1:
            raise UserError(
                f"{self.name}: an input is (features,) or (channels, height, width), not {self.input_shape}"
            )
        _ = self.stages

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Normal form: layers with weights, each with the layers that follow it."""
        stages = stages_of(self.name, self.input_shape, self.layers)
        if not stages or not isinstance(stages[-1].layer, Linear) or stages[-1].relu or stages[-1].batch_norm:
            raise UserError(f"{self.name} must end in a linear layer: its outputs are the logits")
        return stages

    @property
    def classes(self) -> int:
        """Number of outputs."""
        return self.stages[-1].biases

    @property
    def parameters(self) -> int:
        """Number of weights and biases after folding batch norm."""
        return sum(stage.parameters for stage in self.stages)


def deployed(network: Network) -> Network:
    """Return the description as the hardware runs it: without batch norm, which is folded into the layers."""
    layers = tuple(layer for layer in network.layers if not isinstance(layer, BatchNorm))
    return Network(network.name, network.input_shape, layers)


def stages_of(name: str, input_shape: Shape, layers: tuple[Layer, ...]) -> tuple[Stage, ...]:
    """Group layers into stages, which may end in any layer.

    Parameters
    ----------
    name : str
        Name for messages.
    input_shape : tuple of int
        Shape of a sample: (channels, height, width) or (features,).
    layers : tuple of Layer

    Raises
    ------
    UserError
        If the layers do not fit each other.
    """
    stages: list[Stage] = []
    shape, flat = input_shape, len(input_shape) == 1
    batch_norm = relu = False
    pool, open_layer = 1, None
    start = computed = shape

    def close() -> None:
        if open_layer is not None:
            stages.append(Stage(open_layer, start, computed, shape, batch_norm, relu, pool))

    for number, layer in enumerate(layers):
        where = f"{name}, layer {number} ({type(layer).__name__})"
        match layer:
            case Convolution() | Linear():
                close()
                open_layer, start = layer, shape
                computed = shape = _applied(layer, shape, flat, where)
                batch_norm = relu = False
                pool = 1
            case BatchNorm():
                if open_layer is None or batch_norm or relu or pool > 1 or flat != (len(computed) == 1):
                    raise UserError(f"{where}: batch norm must directly follow a convolution or a linear layer")
                batch_norm = True
            case Relu():
                if open_layer is None:
                    raise UserError(f"{where}: a ReLU must follow a layer with weights")
                relu = True
            case MaxPool():
                if open_layer is None or flat or pool > 1:
                    raise UserError(f"{where}: a max-pool must follow a convolution, one at most")
                if not 2 <= layer.size <= min(shape[1:]):
                    raise UserError(f"{where}: windows of {layer.size} x {layer.size} do not fit {shape}")
                pool = layer.size
                shape = (shape[0], shape[1] // layer.size, shape[2] // layer.size)
            case Flatten():
                flat = True
    close()
    return tuple(stages)


def _applied(layer: Convolution | Linear, shape: Shape, flat: bool, where: str) -> Shape:
    if isinstance(layer, Linear):
        if not flat:
            raise UserError(f"{where}: the input is {shape}; flatten it first")
        if layer.features < 1:
            raise UserError(f"{where}: {layer.features} outputs")
        return (layer.features,)
    if flat or len(shape) != 3:
        raise UserError(f"{where}: a convolution needs (channels, height, width), not a vector")
    if layer.channels < 1 or layer.kernel < 1 or layer.padding < 0:
        raise UserError(f"{where}: {layer.channels} channels, kernel {layer.kernel}, padding {layer.padding}")
    height, width = (side + 2 * layer.padding - layer.kernel + 1 for side in shape[1:])
    if min(height, width) < 1:
        raise UserError(f"{where}: a kernel of {layer.kernel} does not fit {shape}")
    return layer.channels, height, width
