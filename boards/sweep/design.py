"""One point of a sweep as a block to emit and a training to run."""

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
    """Workload of the points that are trained: samples, network and, where it is trained, its pre-trained module.

    Parameters
    ----------
    task : Task
    network : Network
    module : torch.nn.Module
    """

    task: Task
    network: Network
    module: nn.Module

    @property
    def byte_inputs(self) -> bool:
        """Whether samples are bytes."""
        return bool(self.task.tune.inputs.dtype == np.uint8)

    @property
    def samples(self) -> int:
        """Samples to tune on."""
        return len(self.task.tune)


@dataclass(frozen=True)
class ShapesWorkload:
    """Workload of points that are not trained: a transformer by its shapes, and the sentences of a step.

    Parameters
    ----------
    transformer : IntegerTransformer
    lengths : tuple of int
        Tokens of each sentence.
    """

    transformer: IntegerTransformer
    lengths: tuple[int, ...]

    @property
    def samples(self) -> int:
        """Sentences of a step."""
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
        Settings from which, after the preset, `build` makes the block: ``--set`` of `fabtune emit`.
    training : object, optional
        Settings of the job, see `CoreSweep`; None for a generator that is only estimated.
    lanes, columns : int
        Array on which it is trained, 0 where the result does not depend on it.
    """

    spec: Spec
    texts: tuple[str, ...]
    training: Any
    lanes: int = 0
    columns: int = 0

    @property
    def core(self) -> CoreSweep[Any, Any]:
        """The part of the core that trains it."""
        return core_sweeps()[self.spec.name]

    @property
    def array(self) -> tuple[int, int]:
        """Lanes and columns."""
        return self.lanes, self.columns


def design_of(space: Space, point: Point, workload: AnyWorkload | None) -> Design:
    """Build a point's block and its training settings.

    Parameters
    ----------
    space : Space
    point : Point
    workload : Workload or ShapesWorkload, optional
        None for a generator that is only estimated.

    Raises
    ------
    UserError
        If the block or the training refuses a value, or one does not go with the other.
    """
    if workload is not None:
        return core_sweeps()[space.block].design(space, point, workload)
    assert space.block not in CORES, "a core has a workload"
    texts = texts_of(point.settings)
    return Design(build(BLOCKS[space.block], texts, space.preset), texts, None)


def core_of(space: Space, settings: Values, workload: Workload) -> tuple[Spec, tuple[str, ...]]:
    """Build a core for a workload's network.

    Parameters
    ----------
    space : Space
    settings : dict of str to Value
        Other settings than the network and its bytes.
    workload : Workload

    Returns
    -------
    Spec
    tuple of str
        All settings as texts, see `Design`.
    """
    texts = texts_of({"network": named(workload.network), "byte_inputs": workload.byte_inputs, **settings})
    return build(BLOCKS[space.block], texts, space.preset), texts


def texts_of(settings: Values) -> tuple[str, ...]:
    """Write settings as ``--set`` takes them."""
    return tuple(f"{name}={str(one).lower() if isinstance(one, bool) else one}" for name, one in settings.items())


def check(space: Space, workload: AnyWorkload | None) -> int:
    """Refuse a value that no combination of the others makes possible; return the number of points that were built.

    It is each value of a list, and both ends of a range. All combinations are tried, or of a large space the ends of
    all other parameters.

    Raises
    ------
    UserError
        Naming the parameter, the value and the reason of the last refusal.
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

    ends = {name: one.values or one.corners for name, one in space.parameters.items()}
    if space.total > MOST_CORNERS or any(not one.values for one in space.parameters.values()):
        ends = {name: one.corners for name, one in space.parameters.items()}
    for name, one in space.parameters.items():
        for value in one.values if isinstance(one, Choices) else one.corners:
            refusals = [refusal(others) for others in _others(ends, name, value)]
            if all(refusals):
                where = f"{space.name}: sweep.{name} = {value!r}"
                raise UserError(f"{where} is possible with none of the others' values: {refusals[-1]}")
    return len(built)


def _others(ends: dict[str, tuple[Value, ...]], name: str, value: Value) -> Iterator[dict[str, Value]]:
    """Combinations with one value of a parameter and any of the others', at most `MOST_CORNERS`."""
    found = combinations(ends | {name: (value,)})
    for _, one in zip(range(MOST_CORNERS), found, strict=False):
        yield one
