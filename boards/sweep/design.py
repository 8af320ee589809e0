"""A point of a sweep: a block to emit, and a training to run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from ...golden.block import Spec
from ...golden.cores.network_core import named
from ...golden.datasets.dataset import Task
from ...golden.errors import UserError
from ...golden.models.network import Network
from ...golden.registry import BLOCKS, CORES
from ...golden.settings import build
from ...golden.stream.forward import IntegerTransformer
from .core_sweep import CoreSweep, core_sweeps
from .space import MOST_CORNERS, Choices, Point, Space, Value, Values, combinations


@dataclass(frozen=True)
class Workload:
    """Workload of trained points: samples, network and pre-trained module."""

    task: Task
    network: Network
    module: nn.Module

    @property
    def byte_inputs(self) -> bool:
        return bool(self.task.tune.inputs.dtype == np.uint8)

    @property
    def samples(self) -> int:
        return len(self.task.tune)


@dataclass(frozen=True)
class ShapesWorkload:
    """Workload of points without training: a transformer by its shapes, and the tokens of each sentence of a step."""

    transformer: IntegerTransformer
    lengths: tuple[int, ...]

    @property
    def samples(self) -> int:
        return len(self.lengths)


AnyWorkload = Workload | ShapesWorkload


@dataclass(frozen=True)
class Design:
    """A point that can be built and trained.

    Parameters
    ----------
    spec : Spec
        The block.
    texts : tuple of str
        Settings that `build` applies after the preset: ``--set`` of `fabtune emit`.
    training : object, optional
        Settings of the job, see `CoreSweep`; None for a generator that is only estimated.
    lanes, columns : int
        Array that determines the training's result, 0 if the result does not depend on the array.
    """

    spec: Spec
    texts: tuple[str, ...]
    training: Any
    lanes: int = 0
    columns: int = 0

    @property
    def core(self) -> CoreSweep[Any, Any]:
        """Sweep of the core that trains the point."""
        return core_sweeps()[self.spec.name]

    @property
    def array(self) -> tuple[int, int]:
        return self.lanes, self.columns


def design_of(space: Space, point: Point, workload: AnyWorkload | None) -> Design:
    """Block and training settings of a point; the workload is None for a generator that is only estimated.

    A `UserError` if the block or the training refuses a value or a combination.
    """
    if workload is not None:
        return core_sweeps()[space.block].design(space, point, workload)
    assert space.block not in CORES, "a core has a workload"
    texts = texts_of(point.settings)
    return Design(build(BLOCKS[space.block], texts, space.preset), texts, None)


def core_of(space: Space, settings: Values, workload: Workload) -> tuple[Spec, tuple[str, ...]]:
    """Core for a workload's network, and the settings as texts (see `Design`).

    ``settings`` are all settings except the network and ``byte_inputs``.
    """
    texts = texts_of({"network": named(workload.network), "byte_inputs": workload.byte_inputs, **settings})
    return build(BLOCKS[space.block], texts, space.preset), texts


def texts_of(settings: Values) -> tuple[str, ...]:
    """Settings in the syntax of ``--set``."""
    return tuple(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()
    )


def check(space: Space, workload: AnyWorkload | None) -> int:
    """Refuse a value that no combination with others makes possible; return the number of points built.

    All values of a list and both ends of a range are checked, in all combinations. In a large space, while one
    parameter is checked, the others take only their first and last values. The `UserError` names the parameter, the
    value and the last reason.
    """
    built = dict[tuple[Value, ...], str]()

    def refusal(values: dict[str, Value]) -> str:
        key = tuple(values.values())
        if key not in built:
            try:
                design_of(space, space.point(values), workload)
                built[key] = ""
            except UserError as error:
                built[key] = str(error)
        return built[key]

    ends = {name: parameter.values or parameter.corners for name, parameter in space.parameters.items()}
    if space.total > MOST_CORNERS or any(not parameter.values for parameter in space.parameters.values()):
        ends = {name: parameter.corners for name, parameter in space.parameters.items()}
    for name, parameter in space.parameters.items():
        for value in parameter.values if isinstance(parameter, Choices) else parameter.corners:
            refusals = [refusal(others) for others in _others(ends, name, value)]
            if all(refusals):
                where = f"{space.name}: sweep.{name} = {value!r}"
                raise UserError(f"{where} is possible with none of the others' values: {refusals[-1]}")
    return len(built)


def _others(ends: dict[str, tuple[Value, ...]], name: str, value: Value) -> Iterator[dict[str, Value]]:
    """At most `MOST_CORNERS` combinations in which a parameter has this value."""
    points = combinations(ends | {name: (value,)})
    for _, point in zip(range(MOST_CORNERS), points, strict=False):
        yield point
