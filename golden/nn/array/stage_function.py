"""Numbers of a single stage: limit, slope of a leaky ReLU, values of an average, outputs that read the same inputs."""

from __future__ import annotations

from math import prod

from ...fixed import Q8_16
from ...models.layers import AveragePool, Convolution
from ...models.stages import Stage
from ..arithmetic.forward import slope_factor


def limit_of(stage: Stage) -> int | None:
    """Largest output in Q8.16, of a ReLU that has one."""
    limit = None if stage.activation is None else stage.activation.limit
    return None if limit is None else int(Q8_16.from_float(limit))


def slope_of(stage: Stage) -> int:
    """Factor of negative outputs, see `slope_factor`; 0 for none."""
    return 0 if stage.activation is None else slope_factor(stage.activation)


def averaged_of(stage: Stage) -> int:
    """Values of a window whose average is an output; 0 for their largest one."""
    return prod(stage.pool.size) if isinstance(stage.pool, AveragePool) else 0


def group_outputs(stage: Stage) -> int:
    """Output channels that read the same input channels: all, but of a convolution with groups."""
    return stage.biases // (stage.layer.groups if isinstance(stage.layer, Convolution) else 1)
