"""Stage mapping: loops, memory regions and flags of one stage on the array of multipliers, see `mapping`.

Parts of stages that the array does not map have names here, for refusals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from ...models.layers import AveragePool, Convolution, Depthwise, Sides
from ...models.stages import Stage
from ..arithmetic.forward import beyond_map
from .activation_layout import sample_is_map
from .pixel_pairs import PixelPair


@dataclass(frozen=True)
class Loop:
    """One loop of a stage: its number of turns, and the distance of a turn in the activation memory."""

    count: int
    stride: int

    @property
    def in_pairs(self) -> Loop:
        """The same turns, two at once."""
        return Loop(self.count // 2, 2 * self.stride)


class Residual(NamedTuple):
    """Outputs in the activation memory that are added to a stage's sums.

    Attributes
    ----------
    base : int
        First value.
    strides : tuple of int
        Distance of a turn of each loop around a sum: columns and rows of the pool, columns and rows of the output,
        groups, those of a convolution.
    """

    base: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class StageMapping:
    """Loops and memory regions of one stage.

    Parameters
    ----------
    loops : tuple of Loop
        Innermost first: runs of lanes, where a network needs it runs of a row, rows of the kernel, columns and rows of
        the pool, columns and rows of the output, groups of output channels; where a network needs it, groups of a
        convolution, of several of these.
    inner : int
        Loops within a sum: 2, or 3 with runs of a row.
    base : int
        First value of its inputs in the activation memory.
    weights, biases : int
        First word in the weight memory, in the bias memory.
    relu : bool
        Negative outputs become 0.
    limit : int or None
        Largest output in Q8.16, of an activation that has one.
    beyond : tuple of int
        Rows and columns of the pool's windows beyond the map, which do not count: top, bottom, left, right.
    average : int
        Values of a window whose average is an output; 0 for their largest one.
    target : int
        Address of the first output in the activation memory.
    targets : tuple of int
        Strides of an output there: to the next column, row, group of channels, group of a convolution.
    output : int
        First address in the output memory.
    channels : int
        Output channels or features; the last group may have fewer than there are columns.
    groups : int
        Groups of `columns` output channels.
    parts : int
        Groups whose sums are complete at once, and are rounded one after the other: 1, 2 where each half of the lanes
        has sums of its own, or lanes / columns where each lane has a channel.
    sum_lanes : int
        Lanes of a sum: all, half of them, or 1.
    pair : PixelPair or None
        Pixels of which its words are, where they are of two.
    residual : Residual, optional
        What is added to each sum, as one more word before the others, whose weights are the identity: 1.0 for the lane
        of each channel.
    """

    loops: tuple[Loop, ...]
    inner: int
    base: int
    weights: int
    biases: int
    relu: bool
    limit: int | None
    beyond: Sides
    average: int
    target: int
    targets: tuple[int, ...]
    output: int
    channels: int
    groups: int
    parts: int
    sum_lanes: int
    pair: PixelPair | None
    residual: Residual | None = None

    @property
    def within(self) -> bool:
        """Whether each lane has a channel of its own, whose sum is made within its multiplier."""
        return self.sum_lanes == 1

    @property
    def halved(self) -> bool:
        """Whether each half of the lanes has a sum of its own."""
        return self.parts > 1 and not self.within

    @property
    def pooled(self) -> bool:
        """Whether an output is made of several sums."""
        columns, rows = self.loops[self.inner : self.inner + 2]
        return columns.count * rows.count > 1

    @property
    def merged(self) -> bool:
        """Whether a sum is of two pixels of a pool, the upper half of the columns having those of the right one."""
        return self.pair is not None and self.pair.merged

    @property
    def spread(self) -> int:
        """Columns from an output to the one to the right of it, where both are written at once; 0 where one is."""
        return self.pair.columns if self.pair is not None and not self.pair.merged else 0

    @property
    def cells(self) -> int:
        """Output positions of a channel, or pairs of them where two are written at once."""
        columns, rows = self.loops[self.inner + 2 : self.inner + 4]
        return columns.count * rows.count

    @property
    def weight_groups(self) -> int:
        """Groups of output channels with words of weights: of `parts` x `columns` channels."""
        return prod(loop.count for loop in self.loops[self.inner + 4 :])

    @property
    def words(self) -> int:
        """Weight words of one group."""
        return prod(loop.count for loop in self.loops[: self.inner])

    @property
    def sum_words(self) -> int:
        """Words of a sum: those of weights, and the residual."""
        return self.words + (self.residual is not None)

    @property
    def sums(self) -> int:
        """Sums of a sample, each of all columns, halves or lanes."""
        return prod(loop.count for loop in self.loops[self.inner :])

    @property
    def cycles(self) -> int:
        """Cycles from the first word of a sample to behind the last one: one a word, and waits for parts of sums."""
        return (self.sums - 1) * max(self.sum_words, self.parts) + self.sum_words


def limit_of(stage: Stage) -> int | None:
    """Largest output in Q8.16, of an activation that has one."""
    return None if stage.activation is None else stage.activation.largest


def averaged_of(stage: Stage) -> int:
    """Values of a window whose average is an output; 0 for their largest one."""
    return prod(stage.pool.size) if isinstance(stage.pool, AveragePool) else 0


def group_outputs(stage: Stage) -> int:
    """Output channels that read the same input channels: all, but of a convolution with groups."""
    return stage.biases // (stage.layer.groups if isinstance(stage.layer, Convolution) else 1)


def unmapped(stages: tuple[Stage, ...], stage: Stage) -> str:
    """Name the part of a stage that the array does not map, or give an empty text."""
    layer, added = stage.layer, stage.residual
    top, bottom, left, right = beyond_map(stage)
    if stage.pool is not None and (max(top, bottom) > stage.pool.stride[0] or max(left, right) > stage.pool.stride[1]):
        return "a pool whose padding is larger than its stride"
    if isinstance(layer, Depthwise) and len(stage.computed_shape) == 1 and prod(stage.input_shape[1:]) > 1:
        return f"flattened maps {stage.input_shape} as its inputs"
    if added is not None and len(stage.computed_shape) == 1:
        shapes = [stages[one].output_shape for one in added if one >= 0]
        shapes += [stages[0].input_shape] if -1 in added and sample_is_map(stages) else []
        if flattened := [shape for shape in shapes if prod(shape[1:]) > 1]:
            return f"flattened maps {flattened[0]} as its residual"
    return ""


def unwalked(stage: Stage, columns: int) -> str:
    """Name the part of a stage that the loops of an array do not walk over, or give an empty text."""
    outputs = group_outputs(stage)
    if outputs < stage.biases and outputs % columns:
        return f"{stage.biases // outputs} groups of {outputs} outputs, no multiple of columns = {columns}"
    return ""
