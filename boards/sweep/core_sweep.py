"""Contract of a sweep with a core, and the cores that answer: each has ``SWEEP`` in ``boards/cores/CORE/sweep.py``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ...golden.cores.core import CoreSpec
from ...golden.registry import CORES

if TYPE_CHECKING:
    from .design import Design, Workload
    from .space import Point, Space


class Training(Protocol):
    """Settings of any core's training; their `repr` shows all of them."""

    @property
    def method(self) -> str:
        """Name of the method in `fabtune tune`."""

    @property
    def rate(self) -> float:
        """Learning rate."""


_Core = TypeVar("_Core", bound=CoreSpec)
"""Spec of the core."""
_Settings = TypeVar("_Settings")
"""Settings of its job: a `Training`, where points are trained."""


class CoreSweep(ABC, Generic[_Core, _Settings]):
    """Designs of a core's points and their cost.

    Unless it is a `TrainedSweep`, the workload is a transformer by its shapes, and nothing is trained.
    """

    spec: ClassVar[type[CoreSpec]]
    """The core."""
    training: ClassVar[dict[str, type]]
    """Types of the settings of its training; of a `TrainedSweep` in addition to ``method``, ``batch`` and ``rate``."""
    not_swept: ClassVar[dict[str, str]]
    """Settings of the core that a sweep does not take, each with the reason."""
    generators: ClassVar[dict[str, str]] = {}
    """Parts of its generator that are swept alone and trained on its array: prefix of their settings, by block."""

    @abstractmethod
    def design(self, space: Space, point: Point, workload: Any) -> Design:
        """Build the design of a point, of the core or of one of its `generators`.

        Parameters
        ----------
        space : Space
        point : Point
        workload : Workload
            Of a core whose points are not trained a `ShapesWorkload`.

        Raises
        ------
        UserError
            If the block or the training refuses a value, or one does not go with the other.
        """

    @abstractmethod
    def cycles(self, spec: _Core, training: _Settings, samples: int) -> int:
        """Count the cycles of a job on so many samples, see `objectives.cycles`."""

    @abstractmethod
    def dram_bytes(self, spec: _Core, training: _Settings, samples: int) -> int:
        """Count the bytes of all regions of a job on so many samples."""


class TrainedSweep(CoreSweep[_Core, _Settings]):
    """The same of a core whose points are trained on samples."""

    @abstractmethod
    def with_seed(self, training: _Settings, seed: int) -> _Settings:
        """Make the training of a seed."""

    @abstractmethod
    def accuracy(self, training: _Settings, array: tuple[int, int], workload: Workload) -> float:
        """Train in the core's integers; return the fraction of held-out samples that are right afterwards.

        Parameters
        ----------
        training : object
        array : tuple of (int, int)
            Lanes and columns of the design, see `Design`.
        workload : Workload

        Raises
        ------
        UserError
            If the training diverges.
        """

    @abstractmethod
    def tune_options(self, training: _Settings, array: tuple[int, int]) -> list[str] | None:
        """List the options of `fabtune tune` behind the method, the rate and the workload.

        None where that command has no core with the array.
        """


def core_sweeps() -> dict[str, CoreSweep[Any, Any]]:
    """Find who sweeps a block: each core that can be swept, then the generators, each by the first core that has it."""
    parts = {name: spec.part("boards", "sweep", "SWEEP") for name, spec in CORES.items()}
    found: dict[str, CoreSweep[Any, Any]] = {name: part for name, part in parts.items() if part}
    for core in tuple(found.values()):
        for generator in core.generators:
            found.setdefault(generator, core)
    return found
