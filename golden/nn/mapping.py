"""Mapping of a network onto the array of multipliers: stage loops, memory regions, and where weights and biases stand.

The memories are as wide as the array. A *word* is `lanes` values of one tensor, or, of parameters, `lanes` x `columns`
values: for each of `columns` outputs the weights of those lanes. Activations of a map are stored pixel by pixel with
the channels side by side, so that the window of a convolution is `kernel` runs of neighbours. Where that saves words,
the first convolution's rows are stored `kernel` times side by side, and its window is a single run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from ..axi.bus import BEAT
from ..errors import UserError
from ..models.layers import AveragePool, Convolution, Depthwise, by
from ..models.network import Network
from ..models.stages import Stage


@dataclass(frozen=True)
class Loop:
    """One loop of a stage: its number of turns, and the distance of a turn in the activation memory."""

    count: int
    stride: int


class InputLayout(NamedTuple):
    """Layout of a stage's input in the activation memory: rows, and values to the next row and to the next column."""

    rows: int
    pitch: int
    column: int


@dataclass(frozen=True)
class StageMapping:
    """Loops and memory regions of one stage.

    Parameters
    ----------
    loops : tuple of Loop
        Innermost first: runs of lanes, rows of the kernel, columns and rows of the pool, columns and rows of the
        output, groups of output channels.
    base : int
        First value of its inputs in the activation memory.
    weights, biases : int
        First word in the weight memory, in the bias memory.
    relu : bool
    target : int
        Address of the first output in the activation memory.
    targets : tuple of int
        Strides of an output there: to the next column, row, group of channels.
    output : int
        First address in the output memory.
    channels : int
        Output channels or features; the last group may have fewer than there are columns.
    """

    loops: tuple[Loop, ...]
    base: int
    weights: int
    biases: int
    relu: bool
    target: int
    targets: tuple[int, int, int]
    output: int
    channels: int

    @property
    def cells(self) -> int:
        """Output positions of a channel."""
        return self.loops[4].count * self.loops[5].count

    @property
    def groups(self) -> int:
        """Groups of output channels."""
        return self.loops[6].count

    @property
    def words(self) -> int:
        """Weight words of one group."""
        return self.loops[0].count * self.loops[1].count

    @property
    def cycles(self) -> int:
        """Words that the array takes for one sample."""
        return prod(loop.count for loop in self.loops)


@dataclass(frozen=True)
class Mapping:
    """A sequence of stages on the array of multipliers.

    Parameters
    ----------
    name : str
        Name of the network, for messages.
    network_stages : tuple of Stage
        One or more, without batch norm.
    lanes : int
        Inputs that are multiplied at once: 16 or 32.
    columns : int
        Outputs that are computed at once: 2, 4 or 8.
    byte_inputs : bool
        A sample's values are bytes that stand for 0 to 1; otherwise Q8.16 in four bytes.
    sides : int
        Sets of parameters with which a sample is computed: 2 for both sides of a perturbation. Each has regions of its
        own behind the samples, as they are computed alternately, stage by stage.
    """

    name: str
    network_stages: tuple[Stage, ...]
    lanes: int = 32
    columns: int = 4
    byte_inputs: bool = True
    sides: int = 1

    def __post_init__(self) -> None:
        for number, stage in enumerate(self.network_stages):
            if stage.batch_norm:
                raise UserError(f"{self.name} has batch norm: fold it first (golden.models.network.deployed)")
            if reason := _unmapped(number, stage):
                where = f"{self.name}, stage {number} ({type(stage.layer).__name__})"
                raise UserError(f"{where} has {reason}, which the array does not map yet")
        for what, value in (("lanes", self.lanes), ("columns", self.columns)):
            if value & (value - 1):
                raise UserError(f"{what} = {value} is not a power of two")
        if not 16 <= self.lanes <= 32 or not 2 <= self.columns <= 8:
            raise UserError(f"lanes = {self.lanes} is 16 or 32, columns = {self.columns} is 2 to 8")

    @classmethod
    def of(
        cls, network: Network, lanes: int = 32, columns: int = 4, byte_inputs: bool = True, sides: int = 1
    ) -> Mapping:
        """Map all stages of a network."""
        return cls(network.name, network.stages, lanes, columns, byte_inputs, sides)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of a sample: (channels, height, width) or (features,)."""
        return self.network_stages[0].input_shape

    @property
    def inputs(self) -> int:
        """Values of a sample."""
        return self.network_stages[0].inputs

    # -- sizes in the memory outside, in beats ---------------------------------------------------------------------

    @property
    def sample_beats(self) -> int:
        """Beats of a sample."""
        return -(-self.inputs * (1 if self.byte_inputs else 4) // BEAT)

    @property
    def word_beats(self) -> int:
        """Beats of a word of parameters."""
        return self.lanes * self.columns * 2 // BEAT

    @property
    def column_beats(self) -> int:
        """Beats of `columns` parameters, such as the biases of a group."""
        return -(-self.columns * 2 // BEAT)

    @property
    def frozen_beats(self) -> int:
        """Beats of the frozen parameters' image: all weights, then all biases."""
        return self.weight_words * self.word_beats + self.groups * self.column_beats

    # -- memories on the chip --------------------------------------------------------------------------------------

    @property
    def row_replicas(self) -> int:
        """Number of copies of a sample's rows, stored side by side."""
        layer, (channels, *_) = self.network_stages[0].layer, self.input_shape
        if not isinstance(layer, Convolution):
            return 1
        kernel, _ = layer.kernel
        apart = kernel * -(-kernel * channels // self.lanes)
        beside = -(-(kernel**2) * channels // self.lanes)
        return kernel if beside < apart else 1

    @property
    def weight_words(self) -> int:
        """Words of the weight memory."""
        return sum(stage.groups * stage.words for stage in self.stages)

    @property
    def groups(self) -> int:
        """Words of the bias memory: groups of output channels of all stages."""
        return sum(stage.groups for stage in self.stages)

    @property
    def output_depth(self) -> int:
        """Depth of the output memory: outputs of all stages that one column computes."""
        return sum(stage.groups * stage.cells for stage in self.stages)

    @property
    def sample_values(self) -> int:
        """Values that a sample takes in the activation memory, padding and replicas included."""
        return self._regions[1]

    @cached_property
    def sample_buffers(self) -> int:
        """Samples that have room in the activation memory: two, unless it would become deeper than a block RAM."""
        rest = self._regions[-1] - self._regions[1] + (self.sides - 1) * self.side_values
        return 2 if (2 * self.sample_values + rest) // self.lanes < 512 else 1

    @property
    def side_values(self) -> int:
        """Values from a region of one side to that of the other one.

        All stages' outputs; `lanes` more, as those of the last stage are written behind the regions, too.
        """
        return self._regions[-1] - self._regions[1] + self.lanes

    @property
    def activation_values(self) -> int:
        """Values of the activation memory; a window may reach `lanes` beyond the last region."""
        return self._base(len(self.network_stages)) + (self.sides - 1) * self.side_values + self.lanes

    def _base(self, stage: int) -> int:
        return self._regions[stage] + (self.sample_buffers - 1) * self.sample_values * (stage > 0)

    @cached_property
    def _regions(self) -> tuple[int, ...]:
        """End of the sample's region and of every stage's outputs, with room for one sample; 0 first."""
        ends = [0]
        for at, stage in enumerate(self.network_stages):
            height, pitch, _ = self.layout(at)
            size = height * pitch if isinstance(stage.layer, Convolution) else stage.inputs
            ends.append(ends[-1] + -(-size // self.lanes) * self.lanes)
        return tuple(ends)

    def layout(self, at: int) -> InputLayout:
        """Layout in the activation memory of what stage number `at` reads."""
        stage = self.network_stages[at]
        layer = stage.layer
        if not isinstance(layer, Convolution):
            return InputLayout(1, stage.inputs, stage.channels if at else 1)
        channels, height, width = stage.input_shape
        replicas = self.row_replicas if at == 0 else 1
        column = channels * replicas
        top, bottom, left, right = layer.padding
        pitch = (width + left + right) * column
        if replicas > 1:
            _, rows, _ = stage.output_shape
            return InputLayout(rows * _pool(stage), -(-pitch // self.lanes) * self.lanes, column)
        return InputLayout(height + top + bottom, pitch, column)

    # -- stages ----------------------------------------------------------------------------------------------------

    @cached_property
    def stages(self) -> tuple[StageMapping, ...]:
        """All stages in order."""
        mapped: list[StageMapping] = []
        weights = biases = output = 0
        for at, stage in enumerate(self.network_stages):
            loops = self._loops(at, stage)
            target, targets = self._target(at, stage)
            own = StageMapping(
                loops,
                self._base(at),
                weights,
                biases,
                stage.activation is not None,
                target,
                targets,
                output,
                stage.biases,
            )
            mapped.append(own)
            weights += own.groups * own.words
            biases += own.groups
            output += own.groups * own.cells
        return tuple(mapped)

    def tail_lanes(self, at: int) -> int:
        """Lanes of the last word of each run of stage number `at` that have an input, from lane 0 up."""
        stage, runs = self.network_stages[at], self.stages[at].loops[0].count
        values = stage.inputs
        if isinstance(stage.layer, Convolution):
            values = stage.layer.kernel[1] * self.layout(at).column
        return values - (runs - 1) * self.lanes

    def _loops(self, at: int, stage: Stage) -> tuple[Loop, ...]:
        groups = Loop(-(-stage.biases // self.columns), 0)
        if not isinstance(stage.layer, Convolution):
            once = (Loop(1, 0),) * 5
            return (Loop(-(-stage.inputs // self.lanes), self.lanes), *once, groups)
        _, pitch, column = self.layout(at)
        _, rows, columns = stage.output_shape
        (kernel, _), pool = stage.layer.kernel, _pool(stage)
        runs = Loop(-(-kernel * column // self.lanes), self.lanes)
        taps = Loop(1 if at == 0 and self.row_replicas > 1 else kernel, pitch)
        inner = Loop(pool, column), Loop(pool, pitch)
        return (runs, taps, *inner, Loop(columns, pool * column), Loop(rows, pool * pitch), groups)

    def _target(self, at: int, stage: Stage) -> tuple[int, tuple[int, int, int]]:
        if at + 1 == len(self.network_stages):
            return self._base(at + 1), (0, 0, 0)
        following = self.network_stages[at + 1]
        base, columns = self._base(at + 1), stage.output_shape[-1] if len(stage.output_shape) == 3 else 1
        if isinstance(following.layer, Convolution):
            _, pitch, column = self.layout(at + 1)
            top, _, left, _ = following.layer.padding
            return base + top * pitch + left * column, (column, pitch, self.columns)
        return base, (stage.biases, columns * stage.biases, self.columns)


def _pool(stage: Stage) -> int:
    """Side of the max-pool, 1 for none."""
    return 1 if stage.pool is None else stage.pool.size[0]


def _unmapped(number: int, stage: Stage) -> str:
    """Part of a stage that the array does not map yet, or an empty text."""
    layer, pool, activation = stage.layer, stage.pool, stage.activation
    if isinstance(layer, Depthwise):
        return "one filter a channel"
    if isinstance(layer, Convolution):
        if layer.kernel[0] != layer.kernel[1]:
            return f"a kernel of {by(layer.kernel)}"
        if len(set(layer.padding)) > 1:
            return f"a padding of {', '.join(map(str, layer.padding))} (top, bottom, left, right)"
        if layer.stride != (1, 1):
            return f"a stride of {by(layer.stride)}"
    if isinstance(pool, AveragePool):
        return "an average pool"
    if pool is not None and (pool.size[0] != pool.size[1] or pool.stride != pool.size):
        return f"a max-pool of {by(pool.size)} with a stride of {by(pool.stride)}"
    if activation is not None and activation.limit is not None:
        return f"a ReLU up to {activation.limit:g}"
    if stage.residual is not None:
        return "a residual"
    if stage.source != number - 1:
        return f"the outputs of stage {stage.source} as its input"
    return ""
