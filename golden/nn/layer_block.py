"""Layer block: one stage of a network with streams, the base of `conv`, `depthwise` and `fc`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from ..block import Field, Spec, Stream, Words
from ..errors import UserError, check_range
from ..fixed import Q4_12, Q8_16, Integers, Narrower
from ..memories.plan import MemoryShape
from ..models.activations import ACTIVATIONS, Nonlinearity, activation_from
from ..models.layers import Layer, Pair, Sides
from ..models.stages import Stage, stages_of
from .arithmetic.forward import StageIntegers, forward
from .arithmetic.products import product_of
from .array import latency
from .array.images import frozen_image, weight_positions
from .array.mapping import Mapping
from .array.memories import network_memories

VALUES = 8
"""Parameters a beat."""
ENTER = 1
"""Cycles from a sample's first activation to the start of its write to the activation memory."""
BETWEEN = 2
"""Cycles from a sample's last write to the next sample's first activation."""
IDLE = 1
"""Cycles of the sequencer's state that waits for a sample."""
LARGEST_BEATS = 1 << 16
LARGEST_SIDE = 1024
"""Most channels, rows and columns of a map."""


def check_beats(beats: int) -> None:
    """Raise `UserError` for more than `LARGEST_BEATS`."""
    if beats > LARGEST_BEATS:
        raise UserError(f"{beats} beats of parameters are more than {LARGEST_BEATS}: they are kept on the chip")


def check_sizes(sizes: dict[str, int], most: int) -> None:
    """Raise `UserError` for a size outside 1 to `most`."""
    for name, size in sizes.items():
        check_range(name, size, 1, most)


def expand(name: str, values: tuple[int, ...], count: int, least: int, most: int) -> tuple[int, ...]:
    """The `count` values; a single value is repeated.

    Raises
    ------
    UserError
        If the count is wrong, or a value is out of range.
    """
    if len(values) not in (1, count) or not all(least <= value <= most for value in values):
        text = ",".join(map(str, values))
        raise UserError(f"{name} = {text} is not one number of {least} to {most}, or {count} of them")
    return values * count if len(values) == 1 else values


@dataclass(frozen=True, kw_only=True)
class LayerBlockSpec(Spec):
    """Parameters and model of a block that computes a stage.

    Parameters
    ----------
    activation : str
        Activation by its word in a network's text, as ``relu6``; ``none`` for none.
    lanes : int
        Inputs that are multiplied at once: 16 or 32.
    columns : int
        Outputs that are computed at once: 2, 4, 8 or 16.
    """

    activation: str = "relu"
    lanes: int = 32
    columns: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_beats(self.mapping.frozen_beats)

    @property
    @abstractmethod
    def stage(self) -> Stage:
        """Layer, activation and pool."""

    @cached_property
    def mapping(self) -> Mapping:
        """Mapping of the stage onto the array."""
        return Mapping(self.name, (self.stage,), self.lanes, self.columns, byte_inputs=False, pairs="frozen")

    @property
    def sample_inputs(self) -> int:
        """Input activations a sample."""
        return self.stage.inputs

    @property
    def sample_outputs(self) -> int:
        """Output activations a sample."""
        return prod(self.stage.output_shape)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Memories of the forward engine."""
        return network_memories(self.mapping)

    def _stage(self, shape: tuple[int, ...], layer: Layer, *behind: Layer) -> Stage:
        """Stage of a layer, the activation and the following layers."""
        activations: tuple[Nonlinearity, ...] = ()
        if self.activation != "none":
            activation = activation_from(self.activation)
            if activation is None:
                words = ", ".join(kind.words for kind in ACTIVATIONS)
                raise UserError(f"activation = {self.activation!r} is no activation, as {words} or none are")
            activations = (activation,)
        (stage,) = stages_of(self.name, shape, (layer, *activations, *behind))
        return stage

    # -- the block -------------------------------------------------------------------------------------------------

    def streams(self) -> dict[str, Stream]:
        """Streams: inputs `load` for parameters and `i` for samples, output `o`."""
        return {
            "load": Stream(
                "in",
                (Field("parameter", Q4_12, VALUES),),
                doc="The image of the parameters, `golden.nn.array.images.frozen_image`, a beat a word. Ready "
                "between samples; the last beat waits until activations are cleared.",
            ),
            "i": Stream(
                "in",
                (Field("activation", Q8_16),),
                doc="Samples, channel by channel, row by row; ready once the parameters are there and a buffer is "
                "free.",
            ),
            "o": Stream(
                "out",
                (Field("activation", Q8_16),),
                doc="Outputs of the stage, channel by channel, row by row. Latency and period: `LayerBlockSpec`.",
            ),
        }

    @property
    def load_cycles(self) -> int:
        """Cycles of an image on `load` without waits, clearing of activations included."""
        return max(self.mapping.frozen_beats, self.mapping.clear_cycles + 2)

    def load_words(self, own: StageIntegers) -> dict[str, Words]:
        """Image on `load`."""
        image = frozen_image(self.mapping, [own]).view("<i2").astype(np.int64)
        return {"load": {"parameter": image.reshape(-1, VALUES)}}

    def sample_words(self, samples: Integers) -> dict[str, Words]:
        """Samples on `i`."""
        return {"i": {"activation": samples.reshape(-1, 1)}}

    def results(self, own: StageIntegers, samples: Integers) -> dict[str, Words]:
        """Outputs on `o`."""
        found = forward(self.stage, own, samples, product_of("int64"), Narrower())
        return {"o": {"activation": found.reshape(-1, 1)}}

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Outputs of all complete samples after a load."""
        own = self._loaded(inputs["load"]["parameter"])
        values = inputs["i"]["activation"]
        samples = values[: len(values) // self.sample_inputs * self.sample_inputs].reshape(-1, *self.stage.input_shape)
        return {"o": {"activation": self.results(own, samples)["o"]["activation"][:words]}}

    def _loaded(self, beats: Integers) -> StageIntegers:
        """Parameters of an image."""
        stage, values = self.stage, beats.reshape(-1)
        biases = values[self.mapping.weight_words * self.lanes * self.columns :].reshape(self.mapping.groups, -1)
        return StageIntegers(
            values[weight_positions(self.mapping, 0)].reshape(stage.weight_shape),
            biases[:, : self.columns].reshape(-1)[: stage.biases],
        )

    @property
    def latency(self) -> int:
        """Cycles from a sample's first activation to its first output."""
        start = latency.BUFFERED + IDLE + latency.STAGE_STATES
        return ENTER + self._entry + start + self._word_to_outputs + latency.OUTPUT_READ

    @property
    def period(self) -> int:
        """Cycles between first outputs of adjacent samples without waits, with the next sample entering meanwhile."""
        return self.sample_outputs + latency.STAGE_STATES + self._word_to_outputs

    @property
    def _word_to_outputs(self) -> int:
        """Cycles from the stage's first word to the first read of its outputs."""
        across = latency.across_latency(self.lanes)
        words = self.mapping.stages[0].cycles + self.mapping.most_parts - 2
        return words + latency.output_latency(across, self.mapping.pooling_latency)

    def cycles(self, count: int) -> int | None:
        """Cycles of `count` samples at full speed, from first activation to last output.

        None if a sample takes longer to enter than to compute, or cannot enter during the computation.
        """
        if count > 1 and not (self.mapping.sample_buffers == 2 and self._entry + BETWEEN <= self.period):
            return None
        return self.latency + self.sample_outputs + (count - 1) * self.period

    @property
    def _entry(self) -> int:
        """Cycles of a sample's entry.

        Beats of four follow each other; each is written by the activation, or `columns` at a time for a vector.
        """
        step = 1 if len(self.stage.input_shape) == 3 else min(self.columns, 4)
        sizes = [min(4, self.sample_inputs - first) for first in range(0, self.sample_inputs, 4)]
        end, left = -1, 0
        for size in sizes:
            end, left = end + 1 + max(size, left), -(-size // step)
        return end + left


@dataclass(frozen=True, kw_only=True)
class FilterBlockSpec(LayerBlockSpec):
    """Parameters shared by `conv` and `depthwise`.

    Parameters
    ----------
    channels, height, width : int
        Of the input.
    kernel : tuple of int
        Height and width, or one number for both.
    stride : tuple of int
        Rows and columns from a window to the next, or one number for both.
    padding : tuple of int
        Zeros above, below, left and right, or one number for all sides.
    """

    channels: int = 3
    height: int = 10
    width: int = 10
    kernel: tuple[int, ...] = (3,)
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        check_sizes({"channels": self.channels, "height": self.height, "width": self.width}, LARGEST_SIDE)
        _ = self._filter  # refuses numbers that are out of range
        super().__post_init__()

    @property
    def _filter(self) -> tuple[Pair, Sides, Pair]:
        """Kernel, padding and stride of the layer."""
        kernel, stride = expand("kernel", self.kernel, 2, 1, 16), expand("stride", self.stride, 2, 1, 16)
        top, bottom, left, right = expand("padding", self.padding, 4, 0, 15)
        return (kernel[0], kernel[1]), (top, bottom, left, right), (stride[0], stride[1])
