"""Comparison of a job on a compiled core with the integer job: the simulated core, what is compared, figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...boards.board import DEFAULT_MHZ
from ...boards.host.driver import Finished
from ...golden.cores.core import CoreSpec
from ...hw.verilog import emit
from .build import build
from .device import SimulatedDevice
from .session import Bytes, Dram

Core = TypeVar("Core", bound=CoreSpec)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Figures of a job on the simulated core and of its comparison with the integer job.

    Parameters
    ----------
    cycles : int
        Clock cycles of the job's command, latency and stalls of the memory included.
    compared : int
        Steps, or batches of tuning, after which all that the core updates was compared.
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
    compared: int
    logits_compared: int
    mismatches: int
    simulated: int
    seconds: float

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for a report, by the keys of ``--json``."""
        return {
            "cycles": self.cycles,
            "mhz": DEFAULT_MHZ,
            "milliseconds": round(self.cycles / DEFAULT_MHZ / 1000, 3),
            "logits_compared": self.logits_compared,
            "mismatches": self.mismatches,
            "bit_exact": self.mismatches == 0,
            "simulated_cycles": self.simulated,
            "simulation_seconds": round(self.seconds, 1),
        }


class Ended(Protocol):
    """Result of a job through a host driver."""

    @property
    def finished(self) -> Finished:
        """Cycles and counters of the command."""


Spec = TypeVar("Spec", bound=CoreSpec, contravariant=True)
Ran = TypeVar("Ran", bound=Ended)
Found = TypeVar("Found")
Figures = TypeVar("Figures", bound=Comparison)


class ComparedJob(Protocol[Spec, Ran, Found]):
    """A job that a core runs through its host driver, and golden as an integer job; both give logits of samples."""

    def driver(self, spec: Spec, device: SimulatedDevice) -> Any:
        """Make a host driver of the core."""

    def load(self, driver: Any) -> None:
        """Load the network, and what the job begins with."""

    def run_core(self, driver: Any, device: SimulatedDevice) -> tuple[Ran, Bytes]:
        """Run the job on a loaded core; return its result, and the image of what it updates after each step."""

    def found(self, driver: Any) -> Found:
        """Read back what the core has updated."""

    def golden(self, spec: Spec) -> Any:
        """Make the integer job, before its first step."""

    def mismatches(self, spec: Spec, golden: Any, ran: Ran, traced: Bytes, found: Found) -> int:
        """Run the integer job, count what differs in the core's, and give it what the core has found."""


def compare(
    kind: type[Figures],
    spec: Spec,
    job: ComparedJob[Spec, Ran, Found],
    held_out: NDArray[np.integer],
    dram: Dram | None,
    seed: int,
    stage: Callable[[str], None],
) -> tuple[Ran, Found, Bytes, Figures]:
    """Emit, compile and simulate a core, run a job on it through the host driver, and compare.

    Compared is what `ComparedJob.mismatches` does, and then the logits of held-out samples with what the core found.

    Parameters
    ----------
    kind : type of Comparison
        What the figures are returned as.
    spec : CoreSpec
    job : ComparedJob
    held_out : array of int, (n, *input_shape)
        Samples for the logits, as the job's inputs.
    dram, seed, stage
        See `simulated_core`; `stage` is called for the steps of the comparison, too.

    Returns
    -------
    object
        The core's result of the job.
    object
        What the core found.
    array of uint8, (steps, bytes)
        Image of what the core updates, after each step.
    Comparison
        Its figures.
    """
    device = simulated_core(spec, dram, seed, stage)
    driver = job.driver(spec, device)
    stage("simulate the job")
    job.load(driver)
    ran, traced = job.run_core(driver, device)
    found = job.found(driver)
    logits = driver.logits(held_out)
    stage("compare")
    golden = job.golden(spec)
    wrong = job.mismatches(spec, golden, ran, traced, found)
    own = golden.logits(spec.values_of(held_out))
    wrong += int((logits != own).any(axis=1).sum())
    comparison = kind(
        cycles=ran.finished.cycles,
        compared=len(traced),
        logits_compared=len(own),
        mismatches=wrong,
        simulated=device.simulated,
        seconds=device.seconds,
    )
    return ran, found, traced, comparison


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
