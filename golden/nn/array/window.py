"""Window of a sum: its inputs as runs of adjacent values in the activation memory."""

from __future__ import annotations

from typing import NamedTuple

from ...models.layers import Convolution, Depthwise
from ...models.stages import Stage
from .activation_layout import TensorLayout
from .stage_mapping import Loop

LEAST_PERTURBED = 16
"""Fewest columns with pairs of perturbed weights; file formats fix the order of smaller arrays."""


class Window(NamedTuple):
    """Runs of adjacent values, by row.

    Attributes
    ----------
    values : int
        Values of a run.
    across : Loop
        Runs of a row: one, or one a pixel where other channels lie between.
    down : Loop
        Rows.
    """

    values: int
    across: Loop
    down: Loop

    def words(self, lanes: int) -> int:
        """Words of a sum across `lanes`."""
        return -(-self.values // lanes) * self.across.count * self.down.count


def window_of(stage: Stage, layout: TensorLayout, lanes: int, replicated: bool, further: int = 0) -> Window:
    """Window of a stage's sums.

    Parameters
    ----------
    stage : Stage
    layout : TensorLayout
        Layout of the input.
    lanes : int
        Lanes of the array.
    replicated : bool
        Rows of the input are replicated.
    further : int
        Additional columns to the right, for the second pixel of a pair.
    """
    if isinstance(stage.layer, Depthwise):
        # a word a pixel
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
        # a whole map without padding
        return Window(stage.inputs, Loop(1, 0), Loop(1, layout.pitch))
    return Window(width * channels, Loop(1, 0), Loop(height, layout.pitch))


def one_offset(window: Window, lanes: int, columns: int) -> bool:
    """Whether both copies of a weight share an offset: each run is a single word."""
    return columns >= LEAST_PERTURBED and window.values <= lanes and window.across.count == 1
