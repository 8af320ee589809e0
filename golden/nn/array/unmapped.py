"""Names of what the array of multipliers does not map: parts of stages, for refusals."""

from __future__ import annotations

from math import prod

from ...models.layers import Depthwise
from ...models.stages import Stage
from ..arithmetic.forward import beyond_map
from .activation_layout import sample_is_map
from .stage_function import group_outputs


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
