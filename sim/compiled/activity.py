"""Toggles of a compiled core's ports and registers in a job, and their SAIF for a power estimate."""

from __future__ import annotations

import re
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from ...boards.host.golden_device import GoldenDevice
from ...boards.host.recording import first_difference
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ...golden.registry import CORES
from ...hw.hierarchy import registers_of
from ...hw.verilog import Emitted, emit
from .build import build
from .device import SimulatedDevice
from .playing import Device, HostJob, host_on
from .saif import Saif
from .session import Dram

_CHANNEL = re.compile(r"([sm]_axi_\w+?\d*)_(aw|ar|w|r|b)[a-z]+")


@dataclass(frozen=True)
class Toggles:
    """Number of bits, and of all their toggles in a job."""

    bits: int = 0
    count: int = 0

    def __add__(self, other: Toggles) -> Toggles:
        return Toggles(self.bits + other.bits, self.count + other.count)


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Activity of a core in a job.

    Parameters
    ----------
    top : str
        Name of the core's module.
    steps, batch, cycles : int
        Steps or batches, samples of each, and clock cycles of the command.
    bit_exact : bool
        All commands and the tuned parameters are equal to golden's.
    ports : dict of str to Toggles
        By channel, such as ``m_axi_gmem0 r``; the clock is left out.
    registers : dict of str to Toggles
        By part of the core; contents and outputs of memories are left out.
    saif : str
        SAIF text of the top module's ports, the clock included.
    """

    top: str
    steps: int
    batch: int
    cycles: int
    bit_exact: bool
    ports: Mapping[str, Toggles]
    registers: Mapping[str, Toggles]
    saif: str


@dataclass(frozen=True)
class ActivityJob:
    """Random job for a measurement of activity.

    Parameters
    ----------
    steps : int
        Training steps, or batches after one epoch that fills the cache.
    batch : int
        Samples of each; 0: the core's default.
    seed : int
        Seed of network, samples and order.
    raw : bool
        The cache holds Q8.16.
    """

    steps: int = 4
    batch: int = 0
    seed: int = 1
    raw: bool = False

    def check(self, spec: CoreSpec) -> int:
        """Return the samples of a step; an unsupported job is a `UserError`."""
        own = activity_of(spec)
        usual, most = own.batches(spec)
        if not 0 <= self.batch <= most:
            raise UserError(f"a batch of {self.batch}: {spec.name} takes 1 to {most} samples")
        if self.raw and not own.has_raw(spec):
            parts = {name: core.part("sim", "measured_jobs", "ACTIVITY") for name, core in CORES.items()}
            names = [name for name, part in parts.items() if part and part.caches]
            raise UserError(f"only an {' or '.join(names)} whose cache is in DRAM has one of Q8.16")
        return self.batch or usual


Core = TypeVar("Core", bound=CoreSpec)


class CoreActivity(Protocol[Core]):
    """Job of a core for counts of toggles, the ``ACTIVITY`` in ``sim/cores/CORE/measured_jobs.py``.

    Attributes
    ----------
    steps : str
        ``steps`` or ``batches``.
    caches : bool
        The core can be generated with a cache in DRAM.
    """

    steps: ClassVar[str]
    caches: ClassVar[bool] = False

    @abstractmethod
    def batches(self, spec: Core) -> tuple[int, int]:
        """Default and largest number of samples of a step."""

    def has_raw(self, spec: Core) -> bool:
        """Whether the core can have a cache of Q8.16."""
        return False

    @abstractmethod
    def baseline(self, spec: Core, job: ActivityJob) -> tuple[str, Core, ActivityJob] | None:
        """A second measurement for comparison: name in tables, core and job; None without a comparison."""

    @abstractmethod
    def jobs(self, spec: Core, job: ActivityJob, batch: int) -> Sequence[HostJob[Any]]:
        """Make consecutive jobs on one network, with `batch` samples a step; the last job is measured."""


def activity_of(spec: CoreSpec) -> CoreActivity[Any]:
    """Find a core's activity; a `UserError` if missing."""
    found: CoreActivity[Any] | None = spec.part("sim", "measured_jobs", "ACTIVITY")
    if found is None:
        raise UserError(f"{spec.name} has no job whose toggles are counted")
    return found


def activity(
    spec: CoreSpec, job: ActivityJob, period_ps: int, stage: Callable[[str], None] = lambda _: None
) -> Activity:
    """Run a job on a compiled core, compare it with golden, and count toggles.

    Parameters
    ----------
    spec : CoreSpec
    job : ActivityJob
        An unsupported job is a `UserError`.
    period_ps : int
        Clock period in the SAIF in ps, an even number.
    stage : callable
        Called with each step's name at its start.
    """
    batch = job.check(spec)
    stage(f"emit {spec.name}")
    emitted = emit(spec)
    stage("compile the simulator")
    program = build(emitted.verilog, emitted.top, spec.memory_ports, waves="saif")
    device = SimulatedDevice(program, Dram(noise=False), seed=job.seed)
    stage("simulate the job")
    with tempfile.TemporaryDirectory(prefix="fabtune-") as folder:
        file = Path(folder, "activity.saif")
        jobs = activity_of(spec).jobs(spec, job, batch)
        host = _before_last(jobs, spec, device)
        device.waves(file, period_ps)
        cycles = jobs[-1].run(host).finished.cycles
        device.end_waves()
        golden = _before_last(jobs, spec, GoldenDevice(spec, jobs[0].golden(spec)))
        jobs[-1].run(golden)
        for one in (host, golden):
            jobs[-1].tuned(one)
        stage("count the toggles")
        saif = Saif.of(file.read_text(encoding="utf-8"), emitted.top)
    return Activity(
        top=emitted.top,
        steps=job.steps,
        batch=batch,
        cycles=cycles,
        bit_exact=first_difference(golden.core.records, host.core.records) is None,
        ports=_grouped(saif, {pin: _channel(pin) for pin in _pins(emitted) if pin != emitted.clock}),
        registers=_grouped(saif, parts_of(emitted)),
        saif=saif.only(_pins(emitted)),
    )


def _before_last(jobs: Sequence[HostJob[Any]], spec: CoreSpec, device: Device) -> Any:
    """Run all jobs but the last on a device; return the host driver."""
    host, first = host_on(device, jobs[0], spec), jobs[0]
    first.load(host)
    first.forget(host)
    first.start(host)
    for job in jobs[:-1]:
        job.run(host)
    return host


def parts_of(emitted: Emitted) -> dict[str, str]:
    """Map each register's path in an emitted core to its part.

    A part is a component of the trainer, ``trainer`` for the trainer's own registers, ``shell``, or for all other
    registers the core's name.
    """
    found = {}
    for register in registers_of(emitted.verilog):
        *places, _ = register.split(".")
        found[register] = places[:2][-1] if places else emitted.top
    return found


def _pins(emitted: Emitted) -> list[str]:
    return [pin.name for pin in emitted.pins]


def _channel(pin: str) -> str:
    """Name of a pin's AXI channel, or of the pin itself."""
    found = _CHANNEL.fullmatch(pin)
    return f"{found[1]} {found[2]}" if found else pin


def _grouped(saif: Saif, groups: Mapping[str, str]) -> dict[str, Toggles]:
    """Sum the toggles of nets by group; groups in the order of their first nets."""
    found: dict[str, Toggles] = {}
    for net, group in groups.items():
        # the simulator may drop a net that never changes
        toggles = saif.toggles.get(net, ())
        found[group] = found.get(group, Toggles()) + Toggles(len(toggles), sum(toggles))
    return found
