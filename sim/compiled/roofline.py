"""Active cycles of each part of a compiled core for a sample, and the bottleneck."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ...golden.registry import CORES
from .comparison import simulated_core
from .device import SimulatedDevice
from .session import Dram


@dataclass(frozen=True)
class Work:
    """Cycles of commands, or of one of their samples.

    Parameters
    ----------
    cycles : float
        All cycles.
    turns : dict of str to float
        Cycles of each kind of work in `CoreSpec.turns`, of which one is active at a time.
    beside : dict of str to float
        Active cycles of each part in `CoreSpec.beside`, which work concurrently; for ``port N`` the cycles with a
        pending beat.
    beats : float
        Number of beats at all ports.
    """

    cycles: float
    turns: Mapping[str, float]
    beside: Mapping[str, float]
    beats: float

    @classmethod
    def of(cls, spec: CoreSpec, waits: list[dict[str, Any]]) -> Work:
        """Sum a device's counts over commands, see `waits` in `Session.run`."""

        def total(name: str) -> list[int]:
            return [sum(counts) for counts in zip(*(wait[name] for wait in waits), strict=True)]

        parts, first = total("parts"), len(spec.turns)
        ports = {f"port {number}": cycles for number, cycles in enumerate(total("due"))}
        return cls(
            sum(wait["cycles"] for wait in waits),
            dict(zip(spec.turns, parts, strict=False)),
            dict(zip(spec.beside, parts[first:], strict=False)) | ports,
            sum(total("read_beats")) + sum(total("write_beats")),
        )

    def less(self, other: Work, samples: int) -> Work:
        """Subtract the work of commands with `samples` fewer samples, and divide the difference by `samples`."""

        def each(own: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
            return {name: (cycles - theirs[name]) / samples for name, cycles in own.items()}

        return Work(
            (self.cycles - other.cycles) / samples,
            each(self.turns, other.turns),
            each(self.beside, other.beside),
            (self.beats - other.beats) / samples,
        )

    def of_each(self, samples: int) -> Work:
        """Divide by a number of samples."""
        nothing = Work(0, dict.fromkeys(self.turns, 0), dict.fromkeys(self.beside, 0), 0)
        return self.less(nothing, samples)

    @property
    def idle(self) -> float:
        """Cycles in which no kind of work is active."""
        return self.cycles - sum(self.turns.values())

    @property
    def limit(self) -> str:
        """Part with the most active cycles; ``array`` stands for all kinds of work together."""
        busy = {"array": sum(self.turns.values())} | dict(self.beside)
        return max(busy, key=lambda name: busy[name])

    @property
    def facts(self) -> dict[str, Any]:
        """Figures by the keys of ``--json``."""
        parts = {**self.turns, "idle": self.idle, **self.beside}
        return {
            "cycles": round(self.cycles, 2),
            "parts": {name: round(cycles, 2) for name, cycles in parts.items()},
            "beats": round(self.beats, 2),
            "limit": self.limit,
        }


@dataclass(frozen=True)
class RooflineJob:
    """Random jobs for counts of work.

    Parameters
    ----------
    samples : int
        Samples of an epoch.
    seed : int
        Seed of network and samples.
    raw : bool
        The cache holds Q8.16.
    """

    samples: int = 200
    seed: int = 1
    raw: bool = False


@dataclass(frozen=True)
class Roofline:
    """Work per sample, by kind of sample, and the comparison with golden.

    Parameters
    ----------
    work : dict of str to Work
    compared : int
        Number of batches or steps after which all parameters were compared.
    mismatches : int
        Number of differences.
    """

    work: Mapping[str, Work]
    compared: int
    mismatches: int


Core = TypeVar("Core", bound=CoreSpec, contravariant=True)


class CoreRoofline(Protocol[Core]):
    """Jobs for counts of the work of a core's parts, the ``ROOFLINE`` in ``sim/cores/CORE/measured_jobs.py``.

    Attributes
    ----------
    titles : dict of str to str
        Description of each part in `CoreSpec.turns` and `CoreSpec.beside`.
    """

    titles: ClassVar[Mapping[str, str]]

    @abstractmethod
    def check(self, spec: Core, job: RooflineJob) -> None:
        """Raise a `UserError` if the core cannot run the job."""

    @abstractmethod
    def run(self, spec: Core, job: RooflineJob, device: SimulatedDevice) -> Roofline:
        """Run the jobs and compare them with golden."""


def shown_by() -> list[str]:
    """List the cores with a roofline."""
    return [name for name, core in CORES.items() if core.part("sim", "measured_jobs", "ROOFLINE")]


def roofline_of(spec: CoreSpec) -> CoreRoofline[Any]:
    """Find a core's roofline; a `UserError` if missing."""
    found: CoreRoofline[Any] | None = spec.part("sim", "measured_jobs", "ROOFLINE")
    if found is None:
        raise UserError(f"{spec.name} does not show which of its parts are at work, but {' and '.join(shown_by())}")
    return found


def roofline(
    spec: CoreSpec, job: RooflineJob, dram: Dram | None = None, stage: Callable[[str], None] = lambda _: None
) -> Roofline:
    """Emit and compile a core, run jobs on it, and count the parts' work.

    `stage` is called with each step's name at its start. An unsupported job is a `UserError`.
    """
    own = roofline_of(spec)
    own.check(spec, job)
    device = simulated_core(spec, dram, job.seed, stage)
    stage("simulate the jobs")
    return own.run(spec, job, device)
