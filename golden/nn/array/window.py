"""Window of a sum: the values that it is made of, as runs of neighbours in the activation memory."""

from __future__ import annotations

from typing import NamedTuple

from ...models.layers import Convolution, Depthwise
from ...models.stages import Stage
from .activation_layout import TensorLayout
from .stage_mapping import Loop

LEAST_PERTURBED = 16
"""Fewest columns of an array with pairs whose weights are perturbed: files have the orders of smaller ones."""


class Window(NamedTuple):
    """Runs of neighbours, side by side and one row below the other.

    Attributes
    ----------
    values : int
        Values of a run.
    across : Loop
        Runs of a row: one, or one a pixel where channels that the sum does not read lie between.
    down : Loop
        Rows.
    """

    values: int
    across: Loop
    down: Loop

    def words(self, lanes: int) -> int:
        """Words of a sum of so many lanes."""
        return -(-self.values // lanes) * self.across.count * self.down.count


def window_of(stage: Stage, layout: TensorLayout, lanes: int, replicated: bool, further: int = 0) -> Window:
    """Window of a stage's sums.

    Parameters
    ----------
    stage : Stage
    layout : TensorLayout
        Of what it reads.
    lanes : int
        Those of the array.
    replicated : bool
        The rows of what it reads are stored side by side.
    further : int
        Columns to the right that a convolution's window has, too: those of a pixel that is computed with it.
    """
    if isinstance(stage.layer, Depthwise):
        # a word for each pixel
        height, width = stage.layer.kernel
        return Window(lanes, Loop(width, layout.column), Loop(height, layout.pitch))
    if isinstance(stage.layer, Convolution):
        (height, width), channels = stage.layer.kernel, stage.input_shape[0] // stage.layer.groups
        width += further
        if replicated:
            return Window(width * layout.column, Loop(1, 0), Loop(1, layout.pitch))
    elif layout.rows == layout.column == 1:
        return Window(stage.inputs, Loop(1, 0), Loop(1, layout.pitch))
    else:
        channels, height, width = stage.input_shape
    if layout.column > channels:
        return Window(channels, Loop(width, layout.column), Loop(height, layout.pitch))
    if not isinstance(stage.layer, Convolution) and layout.pitch == width * channels:
        # all of a map that has no zeros around it
        return Window(stage.inputs, Loop(1, 0), Loop(1, layout.pitch))
    return Window(width * channels, Loop(1, 0), Loop(height, layout.pitch))


def one_offset(window: Window, lanes: int, columns: int) -> bool:
    """Whether both places of each weight of a pair's window can have one offset: each run is a single word."""
    return columns >= LEAST_PERTURBED and window.values <= lanes and window.across.count == 1
