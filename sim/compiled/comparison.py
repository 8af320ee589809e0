"""Shared by comparisons of jobs on compiled cores with integer jobs: the simulated core, inputs, figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ...boards.host.driver import Finished
from ...golden.cores.core import CoreSpec
from ...hw.verilog import emit
from .build import build
from .device import SimulatedDevice
from .session import Dram

Core = TypeVar("Core", bound=CoreSpec)
MEGAHERTZ = 200
"""Clock for which reports give milliseconds."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Figures of a job on the simulated core and of its comparison with the integer job.

    Parameters
    ----------
    cycles : int
        Clock cycles of the job's command, latency and stalls of the memory included.
    logits_compared : int
        Samples whose logits were compared at the end.
    mismatches : int
        Comparisons in which core and integer job differ.
    simulated : int
        Clock cycles of all commands.
    seconds : float
        Time of the simulator for them.
    """

    cycles: int
    logits_compared: int
    mismatches: int
    simulated: int
    seconds: float

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for a report, by the keys of ``--json``."""
        return {
            "cycles": self.cycles,
            "ms_at_200_mhz": round(self.cycles / MEGAHERTZ / 1000, 3),
            "logits_compared": self.logits_compared,
            "mismatches": self.mismatches,
            "bit_exact": self.mismatches == 0,
            "simulated_cycles": self.simulated,
            "simulation_seconds": round(self.seconds, 1),
        }


def simulated_core(spec: CoreSpec, dram: Dram | None, seed: int, stage: Callable[[str], None]) -> SimulatedDevice:
    """Emit and compile a core.

    Parameters
    ----------
    spec : CoreSpec
    dram : Dram, optional
        Behaviour of the core's memory.
    seed : int
        Seed of the memory's randomness.
    stage : callable
        Called with the name of each step as it begins.
    """
    stage("emit the core")
    observed = observable(spec)
    emit(observed)
    stage("compile the simulator")
    return SimulatedDevice(compiled_core(observed), dram, seed)


def observable(spec: Core) -> Core:
    """Add the monitor pins to a core, through which a simulation sees each update."""
    return replace(spec, monitor=True)


def compiled_core(spec: CoreSpec) -> Path:
    """Emit a core with monitor pins and compile it, see `build.build`."""
    return build(emit(observable(spec)).verilog, spec.name, spec.memory_ports)


def wrong_counts(finished: Finished, expected: dict[str, int]) -> int:
    """Number of counters of a command that are not as expected."""
    return sum(finished.counts[name] != value for name, value in expected.items())
