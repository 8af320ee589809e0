"""Comparison of a job on a compiled core with golden: the simulated core, what is compared, figures."""

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
    """Figures of a job on the simulated core and of its comparison with golden.

    Parameters
    ----------
    unit : "batches" or "steps"
        What the job has.
    cycles : int
        Clock cycles of the job's command, latency and stalls of the memory included.
    compared : int
        Steps, or batches of tuning, after which all that the core updates was compared.
    logits_compared : int
        Samples whose logits were compared at the end.
    mismatches : int
        Updates and commands in which the core differs from golden.
    simulated : int
        Clock cycles of all commands.
    seconds : float
        Time of the simulator for them.
    golden : Played
        What the job left on golden.
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
        """Figures for a report, by the keys of ``--json``."""
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
    """Figures of a job on the golden core and of its comparison with the job in integers.

    Parameters
    ----------
    commands : int
        Commands of the host driver.
    mismatches : int
        1 where the golden core has tuned otherwise than the integers.
    """

    commands: int
    mismatches: int

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for a report, by the keys of ``--json``."""
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

    Compared are all that the core updates after each batch or step, and of each command, the inference of held-out
    samples at the end included, its counters and all memory behind it.

    Parameters
    ----------
    spec : CoreSpec
    job : HostJob
    held_out : array of int, (n, ...)
        Samples for the logits, as the job's inputs.
    dram, seed, stage
        See `simulated_core`; `stage` is called for the steps of the comparison, too.

    Returns
    -------
    Played
        What the job left on the core.
    Comparison
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
