"""Stage mapping: loops, memory regions and flags of one stage on the array, and refusals of stages, see `mapping`."""

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
    """Loop of a stage: iterations, and stride of an iteration in the activation memory."""

    count: int
    stride: int

    @property
    def in_pairs(self) -> Loop:
        """The same loop, two iterations at once."""
        return Loop(self.count // 2, 2 * self.stride)


class ResidualRead(NamedTuple):
    """Residual of a stage in the activation memory.

    Attributes
    ----------
    base : int
        First address.
    strides : tuple of int
        Stride of each loop around a sum: columns and rows of the pool, columns and rows of the output, groups, groups
        of a convolution.
    """

    base: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class StageMapping:
    """Loops and memory regions of one stage.

    Parameters
    ----------
    loops : tuple of Loop
        Innermost first: words of a run, runs of a row (if `inner` is 3), rows of the kernel, columns and rows of the
        pool, columns and rows of the output, groups of output channels, and in networks that need it groups of a
        convolution with several of these.
    inner : int
        Loops within a sum: 2, or 3 with runs of a row.
    base : int
        First input address in the activation memory.
    weights, biases : int
        First word in the weight memory, in the bias memory.
    relu : bool
        Negative outputs become 0.
    limit : int or None
        Largest output in Q8.16, of an activation that has one.
    beyond : tuple of int
        Ignored rows and columns of pool windows beyond the map: top, bottom, left, right.
    average : int
        Values of an averaged window; 0 for a max-pool.
    target : int
        First output address in the activation memory.
    targets : tuple of int
        Output strides there: next column, row, group of channels, group of a convolution.
    output : int
        First address in the output memory.
    channels : int
        Output channels or features; the last group may be incomplete.
    groups : int
        Groups of `columns` output channels.
    parts : int
        Groups with simultaneous sums, rounded one after the other: 1, 2 for halves of the lanes, lanes / columns for a
        channel a lane.
    sum_lanes : int
        Lanes of a sum: all, half, or 1.
    pair : PixelPair or None
        Pixels of words of two pixels.
    residual : Residual, optional
        Addend of each sum: one more word ahead, with identity weights, 1.0 for the lane of each channel.
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
    residual: ResidualRead | None = None

    @property
    def within(self) -> bool:
        """Whether each lane sums its own channel."""
        return self.sum_lanes == 1

    @property
    def halved(self) -> bool:
        """Whether each half of the lanes has its own sum."""
        return self.parts > 1 and not self.within

    @property
    def pooled(self) -> bool:
        """Whether an output pools several sums."""
        columns, rows = self.loops[self.inner : self.inner + 2]
        return columns.count * rows.count > 1

    @property
    def merged(self) -> bool:
        """Whether words compute two pixels of a pool, the right pixel in the upper half of the columns."""
        return self.pair is not None and self.pair.merged

    @property
    def spread(self) -> int:
        """Columns between adjacent outputs written at once; 0 for single outputs."""
        return self.pair.columns if self.pair is not None and not self.pair.merged else 0

    @property
    def cells(self) -> int:
        """Output positions of a channel, or pairs of positions written at once."""
        columns, rows = self.loops[self.inner + 2 : self.inner + 4]
        return columns.count * rows.count

    @property
    def weight_groups(self) -> int:
        """Groups of `parts` x `columns` output channels."""
        return prod(loop.count for loop in self.loops[self.inner + 4 :])

    @property
    def words(self) -> int:
        """Weight words of one group."""
        return prod(loop.count for loop in self.loops[: self.inner])

    @property
    def sum_words(self) -> int:
        """Words of a sum: weights, and the residual."""
        return self.words + (self.residual is not None)

    @property
    def sums(self) -> int:
        """Sum iterations of a sample, each of all columns, halves or lanes."""
        return prod(loop.count for loop in self.loops[self.inner :])

    @property
    def cycles(self) -> int:
        """Cycles of a sample: one a word, and waits for parts of sums."""
        return (self.sums - 1) * max(self.sum_words, self.parts) + self.sum_words


def limit_of(stage: Stage) -> int | None:
    """Upper clip of the activation in Q8.16, or None."""
    return None if stage.activation is None else stage.activation.largest


def averaged_of(stage: Stage) -> int:
    """Values of an averaged window; 0 without an average pool."""
    return prod(stage.pool.size) if isinstance(stage.pool, AveragePool) else 0


def group_outputs(stage: Stage) -> int:
    """Output channels of a convolution's group."""
    return stage.biases // (stage.layer.groups if isinstance(stage.layer, Convolution) else 1)


def unmapped(stages: tuple[Stage, ...], stage: Stage) -> str:
    """Unmappable part of a stage, or an empty string."""
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
    """Part of a stage without loops on an array, or an empty string."""
    outputs = group_outputs(stage)
    if outputs < stage.biases and outputs % columns:
        return f"{stage.biases // outputs} groups of {outputs} outputs, no multiple of columns = {columns}"
    return ""
