"""Network description, the source of training, integer job, cost model and RTL: a graph of layers.

The hardware runs its normal form, `Network.stages`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..errors import UserError
from .layers import BatchNorm, Concat, Flatten, Layer, Linear, Shape, Weighted
from .stages import Sources, Stage, chain, stage_ends, stages_of


@dataclass(frozen=True)
class Network:
    """Network with one input and one output.

    Parameters
    ----------
    name : str
    input_shape : tuple of int
        (channels, height, width) or (features,).
    layers : tuple of Layer
        In topological order.
    sources : tuple of tuple of int
        Numbers of each layer's input layers, -1 for the sample: two for an `Add`, two or more for a `Concat`, else one.
        Empty for a chain; the sources of a chain, if given, are replaced by an empty tuple.

    Raises
    ------
    UserError
        If the layers do not fit each other, or the network does not end in a fully connected layer.
    """

    name: str
    input_shape: Shape
    layers: tuple[Layer, ...]
    sources: Sources = ()

    def __post_init__(self) -> None:
        if len(self.input_shape) not in (1, 3) or min(self.input_shape) < 1:
            raise UserError(
                f"{self.name}: an input is (features,) or (channels, height, width), not {self.input_shape}"
            )
        _ = self.stages
        if self.sources == chain(len(self.layers)):
            object.__setattr__(self, "sources", ())

    @property
    def reads(self) -> Sources:
        """Input layers of each layer, written out for a chain."""
        return self.sources or chain(len(self.layers))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """Normal form: each layer with weights and its following layers."""
        stages = stages_of(self.name, self.input_shape, self.layers, self.sources)
        last = stages[-1] if stages else None
        if last is None or not isinstance(last.layer, Linear) or last.activation or last.batch_norm:
            raise UserError(f"{self.name} must end in a linear layer: its outputs are the logits")
        if any(isinstance(layer, Concat) for layer in self.layers[self.ends[-1] :]):
            raise UserError(f"{self.name} must end in one linear layer, not in a concatenation")
        return stages

    @property
    def weighted(self) -> list[int]:
        """Indices of the layers with weights."""
        return [index for index, layer in enumerate(self.layers) if isinstance(layer, Weighted)]

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Last layer of each stage."""
        return stage_ends(self.name, self.input_shape, self.layers, self.sources)

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """Layers before which the network can be cut: from there on, layers read only the last stage before the cut."""
        reads = self.reads
        joined = [isinstance(layer, Concat) for layer in self.layers]
        for at, layer in enumerate(self.layers):
            if isinstance(layer, Flatten) and reads[at][0] >= 0:
                joined[at] = joined[reads[at][0]]
        passable = (at for at in range(1, len(reads)) if not joined[at - 1])
        return (0, *(at for at in passable if all(min(own) >= at - 1 for own in reads[at:])))

    @property
    def classes(self) -> int:
        """Outputs of the network."""
        return self.stages[-1].biases

    @property
    def repeats_inputs(self) -> bool:
        """Whether the network has as many outputs as inputs, like an autoencoder."""
        return self.classes == self.stages[0].inputs

    @property
    def parameters(self) -> int:
        """Weights and biases, batch norm folded."""
        return sum(stage.parameters for stage in self.stages)


def deployed(network: Network) -> Network:
    """Description without batch norm, as it runs on hardware."""
    layers: list[Layer] = []
    sources: list[tuple[int, ...]] = []
    # new layer number by old one
    now = {-1: -1}
    for number, (layer, read) in enumerate(zip(network.layers, network.reads, strict=True)):
        if isinstance(layer, BatchNorm):
            now[number] = now[read[0]]
            continue
        now[number] = len(layers)
        layers.append(layer)
        sources.append(tuple(now[one] for one in read))
    return Network(network.name, network.input_shape, tuple(layers), tuple(sources))
