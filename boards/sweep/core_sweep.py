"""Part of a core that a sweep calls: each swept core has a ``SWEEP`` in ``boards/cores/CORE/sweep.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ...golden.cores.core import CoreSpec
from ...golden.registry import CORES

if TYPE_CHECKING:
    from .design import Design, Workload
    from .space import Point, Space


class Training(Protocol):
    """Settings of any core's training. The `repr` must show all settings."""

    @property
    def method(self) -> str:
        """Name of the method in `fabtune tune`."""

    @property
    def rate(self) -> float:
        """Learning rate."""


_Core = TypeVar("_Core", bound=CoreSpec)
"""Spec of the core."""
_Settings = TypeVar("_Settings")
"""Settings of the core's job: a `Training` for points that are trained."""


class CoreSweep(ABC, Generic[_Core, _Settings]):
    """How a core's points become designs, and their cost.

    Unless the class is a `TrainedSweep`, nothing is trained, and the workload is a transformer known only by shapes.
    """

    spec: ClassVar[type[CoreSpec]]
    """The core."""
    training: ClassVar[dict[str, type]]
    """Types of the training settings; a `TrainedSweep` has ``method``, ``batch`` and ``rate`` in addition."""
    not_swept: ClassVar[dict[str, str]]
    """Settings of the core that a sweep refuses, with the reason."""
    generators: ClassVar[dict[str, str]] = {}
    """Prefix of settings, by block: submodules of the core's generator, swept alone and trained on the core's array.
    """

    @abstractmethod
    def design(self, space: Space, point: Point, workload: Any) -> Design:
        """Design of a point, for the core or a block of `generators`.

        A core that is not trained gets a `ShapesWorkload`. A `UserError` if the block or the training refuses a value
        or a combination.
        """

    @abstractmethod
    def cycles(self, spec: _Core, training: _Settings, samples: int) -> int:
        """Cycles of a job on ``samples`` samples, see `objectives.cycles`."""

    @abstractmethod
    def dram_bytes(self, spec: _Core, training: _Settings, samples: int) -> int:
        """Bytes of all memory regions of a job on ``samples`` samples."""


class TrainedSweep(CoreSweep[_Core, _Settings]):
    """How points become designs for a core that is trained on samples."""

    @abstractmethod
    def with_seed(self, training: _Settings, seed: int) -> _Settings:
        """The same training with another seed."""

    @abstractmethod
    def accuracy(self, training: _Settings, array: tuple[int, int], workload: Workload) -> float:
        """Train in the integers of the core with this array, (lanes, columns); fraction of held-out samples right.

        A `UserError` if the training diverges.
        """

    @abstractmethod
    def tune_options(self, training: _Settings, array: tuple[int, int]) -> list[str] | None:
        """Options of `fabtune tune` after method, rate and workload; None if the command has no core with the array."""


def core_sweeps() -> dict[str, CoreSweep[Any, Any]]:
    """Sweeps by block: each core's own; for each generator that of the first core that has the generator."""
    parts = {name: spec.part("boards", "sweep", "SWEEP") for name, spec in CORES.items()}
    sweeps: dict[str, CoreSweep[Any, Any]] = {name: part for name, part in parts.items() if part}
    for core in tuple(sweeps.values()):
        for generator in core.generators:
            sweeps.setdefault(generator, core)
    return sweeps
