"""Comparison of a job on a compiled core with golden, and its figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...boards.board import DEFAULT_MHZ
from ...golden.cores.core import CoreSpec
from ...hw.verilog import emit
from .build import build
from .device import SimulatedDevice
from .playing import HostJob, Played, Unit, host_on, play, played_on_golden
from .session import Dram

Core = TypeVar("Core", bound=CoreSpec)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Figures of a job on the compiled core, compared with golden.

    Parameters
    ----------
    unit : "batches" or "steps"
    cycles : int
        Clock cycles of the job's command, memory latency and stalls included.
    compared : int
        Number of batches or steps after which all parameters were compared.
    logits_compared : int
        Number of samples whose logits were compared at the end.
    mismatches : int
        Number of updates and commands that differ from golden.
    simulated : int
        Clock cycles of all commands.
    seconds : float
        Run time of the simulator.
    golden : Played
        The job on golden.
    difference : str, optional
        First difference.
    """

    unit: Unit
    cycles: int
    compared: int
    logits_compared: int
    mismatches: int
    simulated: int
    seconds: float
    golden: Played = field(repr=False)
    difference: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Figures by the keys of ``--json``."""
        figures: dict[str, Any] = {
            "cycles": self.cycles,
            "mhz": DEFAULT_MHZ,
            "milliseconds": round(self.cycles / DEFAULT_MHZ / 1000, 3),
            "logits_compared": self.logits_compared,
            "mismatches": self.mismatches,
            "bit_exact": self.mismatches == 0,
            "simulated_cycles": self.simulated,
            "simulation_seconds": round(self.seconds, 1),
            f"{self.unit}_compared": self.compared,
        }
        if self.unit == "steps":
            figures["cycles_per_step"] = round(self.cycles / self.compared) if self.compared else None
        return figures | ({"first_difference": self.difference} if self.difference else {})


@dataclass(frozen=True)
class GoldenComparison:
    """Figures of a job on the golden core, compared with the job in integers.

    Parameters
    ----------
    commands : int
        Commands of the host driver.
    mismatches : int
        1 if the tuned parameters differ.
    """

    commands: int
    mismatches: int

    @property
    def facts(self) -> dict[str, Any]:
        """Figures by the keys of ``--json``."""
        return {"commands": self.commands, "mismatches": self.mismatches, "bit_exact": self.mismatches == 0}


def compare(
    spec: CoreSpec,
    job: HostJob[Any],
    held_out: NDArray[np.integer],
    dram: Dram | None = None,
    seed: int = 0,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[Played, Comparison]:
    """Emit, compile and simulate a core, play a job on it and on golden, and compare.

    The parameters are compared after each batch or step, the counters and the whole memory after each command. The last
    command is an inference of `held_out`. `dram`, `seed` and `stage` as in `simulated_core`; `stage` also receives the
    names of the comparison's steps.
    """
    device = simulated_core(spec, dram, seed, stage)
    host = host_on(device, job, spec)
    stage("simulate the job")
    job.load(host)
    played = play(job, host, device, held_out)
    stage("compare")
    golden = played_on_golden(job, spec, held_out)
    wrong = golden.differences(played)
    comparison = Comparison(
        unit=job.unit,
        cycles=played.ran.finished.cycles,
        compared=len(played.images),
        logits_compared=len(held_out),
        mismatches=len(wrong),
        simulated=device.simulated,
        seconds=device.seconds,
        golden=golden,
        difference=wrong[0] if wrong else None,
    )
    return played, comparison


def simulated_core(spec: CoreSpec, dram: Dram | None, seed: int, stage: Callable[[str], None]) -> SimulatedDevice:
    """Emit and compile a core.

    Parameters
    ----------
    spec : CoreSpec
    dram : Dram, optional
        Behaviour of the memory, with randomness from `seed`.
    stage : callable
        Called with each step's name at its start.
    """
    stage("emit the core")
    observed = observable(spec)
    emit(observed)
    stage("compile the simulator")
    return SimulatedDevice(compiled_core(observed), dram, seed)


def observable(spec: Core) -> Core:
    """Add monitor pins to a core; they show every update to the simulation."""
    return replace(spec, monitor=True)


def compiled_core(spec: CoreSpec) -> Path:
    """Emit a core with monitor pins and compile it, see `build.build`."""
    return build(emit(observable(spec)).verilog, spec.name, spec.memory_ports)
