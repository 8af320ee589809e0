"""Stages: the normal form of a network, which the hardware runs.

A stage is a layer with weights, then batch norm, residual, activation and pool, each optional. Its input and its
residual are final outputs of earlier stages, or the sample, or a concatenation of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ..errors import UserError
from .activations import ActivationError, Nonlinearity
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
    Pool,
    Shape,
    Weighted,
    by,
)

MOST_VALUES = 1 << 22
"""Limit of values of a sample or layer output: above VGG-16's 3.2 million, and above a core's memories."""
MOST_PARAMETERS = 1 << 27
"""Limit of weights of a layer: half a gigabyte in float32."""


class LayerError(UserError):
    """Error at a layer; importers replace layer numbers by places in the user's model.

    Parameters
    ----------
    network : str
        Name of the network.
    number : int
    layer : Layer
    reason : str
        End of the sentence; may name other layers by number.
    """

    def __init__(self, network: str, number: int, layer: Layer, reason: str) -> None:
        super().__init__(f"{network}, layer {number} ({type(layer).__name__}){reason}")
        self.number, self.reason = number, reason


Sources = tuple[tuple[int, ...], ...]
"""Input layers of each layer, -1 for the sample: two of `Add`, two or more of `Concat`, else one."""
Tensors = tuple[int, ...]
"""Stages whose concatenated outputs are a tensor, -1 for the sample."""


@dataclass(frozen=True)
class Stage:
    """Layer with weights, and its following layers without weights.

    Parameters
    ----------
    layer : Convolution, Depthwise or Linear
    input_shape : tuple of int
        Shape of the source; (C, H, W) of a fully connected stage that flattens.
    computed_shape : tuple of int
        Shape before the pool.
    output_shape : tuple of int
        Shape after the pool.
    batch_norm : bool
    activation : Nonlinearity or None
    pool : MaxPool, AveragePool or None
    source : tuple of int
        Stages whose outputs it reads, -1 for the sample; several are concatenated.
    residual : tuple of int or None
        Stages whose outputs are added before the activation, numbered like `source`.
    """

    layer: Weighted
    input_shape: Shape
    computed_shape: Shape
    output_shape: Shape
    batch_norm: bool = False
    activation: Nonlinearity | None = None
    pool: Pool | None = None
    source: Tensors = (-1,)
    residual: Tensors | None = None

    @property
    def reads(self) -> Tensors:
        """Stages of source and residual, -1 for the sample."""
        return self.source + (self.residual or ())

    @property
    def inputs(self) -> int:
        """Input values of a sample, also of the stage's adapter."""
        return prod(self.input_shape)

    @property
    def channels(self) -> int:
        """Input channels, each with a scale in the forward cache; 1 for a vector."""
        return self.input_shape[0] if len(self.input_shape) == 3 else 1

    @property
    def biases(self) -> int:
        """Output channels or features."""
        return self.computed_shape[0]

    @property
    def weight_shape(self) -> Shape:
        """PyTorch shape: (out, in, height, width), (channels, 1, height, width) or (out, in)."""
        match self.layer:
            case Convolution(kernel=kernel, groups=groups):
                return self.biases, self.input_shape[0] // groups, *kernel
            case Depthwise(kernel=kernel):
                return self.biases, 1, *kernel
        return self.biases, self.inputs

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return prod(self.weight_shape) + self.biases

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a sample."""
        return prod(self.weight_shape) * prod(self.computed_shape[1:])

    @property
    def forward_flops(self) -> int:
        """Operations of a sample's forward pass; a multiply-accumulate counts as two.

        Bias and residual are an addition each, an activation is `Nonlinearity.operations`. A max-pool of n values is
        n - 1 comparisons, an average n - 1 additions and a division.
        """
        pooling = 0
        if self.pool is not None:
            pooling = prod(self.output_shape) * (prod(self.pool.size) - isinstance(self.pool, MaxPool))
        each = 1 + (self.residual is not None) + (0 if self.activation is None else self.activation.operations)
        return 2 * self.macs + prod(self.computed_shape) * each + pooling


def excess(shape: Shape, most: int = MOST_VALUES) -> str:
    """End of an error message about a tensor beyond the limit, or an empty string; checked before any allocation."""
    count = prod(shape)
    return f"has {by(shape)} = {count} values, more than the limit of {most}" if count > most else ""


def chain(count: int) -> Sources:
    """Sources of a chain of layers."""
    return tuple((at - 1,) for at in range(count))


def stages_of(name: str, input_shape: Shape, layers: Sequence[Layer], sources: Sources = ()) -> tuple[Stage, ...]:
    """Stages of layers, which may end in any layer.

    Parameters
    ----------
    name : str
        Name for messages.
    input_shape : tuple of int
        Shape of a sample: (channels, height, width) or (features,).
    layers : sequence of Layer
        In topological order.
    sources : tuple of tuple of int
        Input layers of each layer; a chain by default.

    Raises
    ------
    UserError
        If layers do not fit each other or form no stages, or outputs of a layer are unused.
    """
    return tuple(_grouped(name, input_shape, layers, sources).stages)


def stage_ends(name: str, input_shape: Shape, layers: Sequence[Layer], sources: Sources = ()) -> tuple[int, ...]:
    """Last layer of each stage; parameters and errors as of `stages_of`."""
    return tuple(_grouped(name, input_shape, layers, sources).ends)


def _grouped(name: str, input_shape: Shape, layers: Sequence[Layer], sources: Sources) -> _Grouping:
    read = sources or chain(len(layers))
    if len(read) != len(layers):
        raise UserError(f"{name} has {len(layers)} layers, and sources of {len(read)}")
    grouping = _Grouping(name, input_shape)
    for layer, own in zip(layers, read, strict=True):
        grouping.add(layer, own)
    unused = set(range(len(layers) - 1)) - {source for own in read for source in own}
    if unused:
        first = min(unused)
        raise LayerError(name, first, layers[first], ": no layer reads its outputs")
    return grouping


def after_cut(stages: Sequence[Stage], cut: int) -> list[Stage]:
    """Stages from `cut` on as a separate network, whose sample is the output of stage ``cut - 1``.

    Raises
    ------
    UserError
        If a stage reads or adds an earlier output, or the sample.
    """
    found = []
    for number, stage in enumerate(stages[cut:], start=cut):
        if cut and min(stage.reads) < cut - 1:
            reader = "source" if min(stage.source) < cut - 1 else "residual"
            raise UserError(f"a network is not cut before stage {cut}: stage {number} has its {reader} before that")
        source, residual = (tuple(one - cut for one in own) for own in (stage.source, stage.residual or ()))
        found.append(replace(stage, source=source, residual=residual or None))
    return found


class _Place(NamedTuple):
    """Layer of a network, for messages."""

    network: str
    number: int
    layer: Layer

    def error(self, reason: str) -> LayerError:
        """Error at this layer."""
        return LayerError(self.network, self.number, self.layer, reason)


class _Value(NamedTuple):
    """Tensor between layers.

    Attributes
    ----------
    parts : tuple of (int, int)
        For each part of a concatenation the stage and the layer that compute it, both -1 for the sample.
    flat : bool
    """

    parts: tuple[tuple[int, int], ...]
    flat: bool

    @property
    def stages(self) -> Tensors:
        """Computing stages."""
        return tuple(stage for stage, _ in self.parts)

    @property
    def stage(self) -> int:
        """Stage that the next layer joins; -1 for the sample."""
        ((stage, _),) = self.parts
        return stage


class _Grouping:
    """Stages of the layers so far.

    Attributes
    ----------
    stages : list of Stage
    ends : list of int
        Last layer of each stage so far, which other stages may read.
    readers : dict of int to int
        By stage, the first layer of another stage that reads it; a stage with a reader is complete.
    """

    def __init__(self, name: str, input_shape: Shape) -> None:
        if reason := excess(input_shape):
            raise UserError(f"{name}: a sample {reason}")
        self.stages: list[Stage] = []
        self._name, self._input_shape = name, input_shape
        self.ends: list[int] = []
        self._readers: dict[int, int] = {}
        self._values = [_Value(((-1, -1),), len(input_shape) == 1)]

    def add(self, layer: Layer, sources: tuple[int, ...]) -> None:
        """Add a layer to the stage that it reads, or as a new stage."""
        number = len(self._values) - 1
        where = _Place(self._name, number, layer)
        if len(sources) < 2 if isinstance(layer, Concat) else len(sources) != 1 + isinstance(layer, Add):
            raise where.error(f" reads {len(sources)} layers")
        if not all(-1 <= source < number for source in sources):
            raise where.error(f" reads layers {sources}, which are not all before it")
        values = [self._values[source + 1] for source in sources]
        for stage, read in (part for value in values for part in value.parts):
            if stage >= 0 and read != (end := self.ends[stage]):
                raise where.error(
                    f" reads the outputs of layer {read} before layer {end}: "
                    "a stage gives only those behind its residual, activation and pool"
                )
        value = values[0]
        match layer:
            case Flatten():
                self._values.append(value._replace(flat=True))
                return
            case Concat():
                self._values.append(self._beside(values, where))
                return
            case Convolution() | Depthwise() | Linear():
                self._begin(layer, value, where)
                self._read(value, number)
                value = _Value(((len(self.stages) - 1, number),), len(self.stages[-1].computed_shape) == 1)
            case Add():
                value, added = self._sum(values[0], values[1], where)
                self._read(added, number)
            case BatchNorm():
                self._normalise(value, where)
            case Nonlinearity():
                self._activate(layer, value, where)
            case MaxPool() | AveragePool():
                self._pool(layer, value, where)
        stage = value.stage
        if (reader := self._readers.get(stage)) is not None:
            raise where.error(
                f" follows layer {self.ends[stage]}, which layer {reader} reads without it: "
                "a stage gives only the outputs behind its residual, activation and pool"
            )
        self.ends[stage] = number
        self._values.append(value._replace(parts=((stage, number),)))

    def _read(self, value: _Value, number: int) -> None:
        """Record a layer of another stage as a tensor's reader."""
        for stage in value.stages:
            self._readers.setdefault(stage, number)

    def _shape(self, value: _Value) -> Shape:
        """Shape of a tensor; maps of equal height and width keep their shape when flattened."""
        shapes = [self.stages[stage].output_shape if stage >= 0 else self._input_shape for stage in value.stages]
        if len(shapes) == 1:
            return shapes[0]
        if len(shapes[0]) == 3 and len({shape[1:] for shape in shapes}) == 1:
            return (sum(shape[0] for shape in shapes), *shapes[0][1:])
        return (sum(map(prod, shapes)),)

    def _beside(self, values: Sequence[_Value], where: _Place) -> _Value:
        """Concatenation; parts of an input concatenation become parts of the result."""
        shapes = [_flat(self._shape(value)) if value.flat else self._shape(value) for value in values]
        if len({shape[1:] for shape in shapes}) > 1 or len({len(shape) for shape in shapes}) > 1:
            raise where.error(f": it puts {', '.join(map(str, shapes))} side by side")
        return _Value(tuple(part for value in values for part in value.parts), values[0].flat)

    def _begin(self, layer: Weighted, value: _Value, where: _Place) -> None:
        shape = self._shape(value)
        computed = _applied(layer, shape, value.flat, where)
        stage = Stage(layer, shape, computed, computed, source=value.stages)
        if reason := excess(computed) or excess(stage.weight_shape, MOST_PARAMETERS):
            raise where.error(f": its weight or output {reason}")
        self.stages.append(stage)
        self.ends.append(-1)

    def _normalise(self, value: _Value, where: _Place) -> None:
        stage = self.stages[value.stage] if len(value.parts) == 1 and value.stage >= 0 else None
        if stage is None or value.flat != (len(stage.computed_shape) == 1) or stage.batch_norm or _behind(stage):
            raise where.error(": batch norm must directly follow a layer with weights")
        self.stages[value.stage] = replace(stage, batch_norm=True)

    def _activate(self, layer: Nonlinearity, value: _Value, where: _Place) -> None:
        title = f": a {layer.name}"
        if len(value.parts) > 1:
            raise where.error(f"{title} behind a concatenation has no stage; each of its parts may have one")
        if value.stage < 0:
            raise where.error(f"{title} must follow a layer with weights")
        stage = self.stages[value.stage]
        if isinstance(stage.pool, AveragePool) or (stage.pool is not None and not layer.rises):
            pool = "an average pool" if isinstance(stage.pool, AveragePool) else "a max-pool"
            raise where.error(f"{title} behind {pool} has no hardware; one before it has")
        if layer.refusal:
            raise where.error(f": {layer.refusal}")
        try:
            activation = layer if stage.activation is None else layer.behind(stage.activation)
        except ActivationError as reason:
            raise where.error(f": {reason}") from None
        self.stages[value.stage] = replace(stage, activation=activation)

    def _pool(self, layer: Pool, value: _Value, where: _Place) -> None:
        title = "a max-pool" if isinstance(layer, MaxPool) else "an average pool"
        if len(value.parts) > 1:
            raise where.error(f": {title} behind a concatenation has no stage; each of its parts may have one")
        if value.stage < 0 or value.flat or self.stages[value.stage].pool is not None:
            raise where.error(f": {title} must follow a convolution, one at most")
        stage = self.stages[value.stage]
        channels, *sides = stage.computed_shape
        top, bottom, left, right = layer.padding
        padded = sides[0] + top + bottom, sides[1] + left + right
        if prod(layer.size) < 2 or not _between((1, 1), layer.size, padded):
            raise where.error(f": windows of {by(layer.size)} do not fit {stage.computed_shape}")
        least, most = (min(layer.padding),) * 2, (max(top, bottom), max(left, right))
        if not (_between((0, 0), least, most) and _between(most, most, (layer.size[0] - 1, layer.size[1] - 1))):
            raise where.error(f": a padding of {_short(layer.padding)} is not less than the windows' {by(layer.size)}")
        if not _between((1, 1), layer.stride, layer.size):
            raise where.error(f": a stride of {by(layer.stride)} is not 1 to the window's {by(layer.size)}")
        down, across = (
            (side - size) // step + 1 for side, size, step in zip(padded, layer.size, layer.stride, strict=True)
        )
        self.stages[value.stage] = replace(stage, pool=layer, output_shape=(channels, down, across))

    def _sum(self, first: _Value, second: _Value, where: _Place) -> tuple[_Value, _Value]:
        """Make the earlier value the residual of the later value's stage; return (later, earlier)."""
        into, other = (first, second) if max(first.stages) > max(second.stages) else (second, first)
        shapes = [_flat(self._shape(one)) if one.flat else self._shape(one) for one in (first, second)]
        if shapes[0] != shapes[1]:
            raise where.error(f": it adds {shapes[0]} to {shapes[1]}")
        if max(into.stages) == max(other.stages):
            raise where.error(": it adds the outputs of one stage to themselves")
        if len(into.parts) > 1:
            raise where.error(": it adds to a concatenation: a residual is added before")
        stage = self.stages[into.stage]
        if behind := _behind(stage):
            raise where.error(f": it adds to layer {into.parts[0][1]}, behind its {behind}: a residual is added before")
        self.stages[into.stage] = replace(stage, residual=other.stages)
        return into, other


def _behind(stage: Stage) -> str:
    """Last component of a stage after its batch norm, or an empty string."""
    activation = "" if stage.activation is None else stage.activation.name
    parts = {"pool": stage.pool, activation: stage.activation, "residual": stage.residual}
    return next((name for name, part in parts.items() if part is not None), "")


def _applied(layer: Weighted, shape: Shape, flat: bool, where: _Place) -> Shape:
    """Output shape of a layer with weights."""
    if isinstance(layer, Linear):
        if not flat:
            raise where.error(f": the input is {shape}; flatten it first")
        if layer.features < 1:
            raise where.error(f": {layer.features} outputs")
        return (layer.features,)
    if isinstance(layer, Depthwise) and flat:
        if layer != Depthwise(1):
            raise where.error(": of a vector, a depthwise convolution has a kernel of 1, no padding, stride 1")
        return _flat(shape)
    if flat or len(shape) != 3:
        raise where.error(": a convolution needs (channels, height, width), not a vector")
    if isinstance(layer, Convolution) and (
        layer.groups < 1 or shape[0] % layer.groups or layer.channels % layer.groups
    ):
        raise where.error(f": {layer.groups} groups of {shape[0]} channels and {layer.channels} outputs")
    channels = layer.channels if isinstance(layer, Convolution) else shape[0]
    kernel, padding, stride = _short(layer.kernel), _short(layer.padding), _short(layer.stride)
    if channels < 1 or min(layer.kernel) < 1 or min(layer.padding) < 0 or min(layer.stride) < 1:
        strides = "" if layer.stride == (1, 1) else f", stride {stride}"
        raise where.error(f": {channels} channels, kernel {kernel}, padding {padding}{strides}")
    top, bottom, left, right = layer.padding
    padded = (shape[1] + top + bottom, shape[2] + left + right)
    if not _between((1, 1), layer.kernel, padded):
        raise where.error(f": a kernel of {kernel} does not fit {shape}")
    down, across = (
        (side - size) // step + 1 for side, size, step in zip(padded, layer.kernel, layer.stride, strict=True)
    )
    return channels, down, across


def _flat(shape: Shape) -> Shape:
    return (prod(shape),)


def _between(least: Pair, value: Pair, most: Pair) -> bool:
    return all(low <= one <= high for low, one, high in zip(least, value, most, strict=True))


def _short(values: tuple[int, ...]) -> str:
    """Sizes as text, one number where all are equal."""
    return str(values[0]) if len(set(values)) == 1 else " x ".join(map(str, values))
