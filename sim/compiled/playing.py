"""Jobs as scripts of driver calls, played on golden and on compiled cores, and the comparison of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...boards.host.driver import Core, Finished
from ...boards.host.golden_device import GoldenDevice
from ...boards.host.recording import CommandRecord, RecordingCore, differences, different_byte
from ...golden.cores.core import CoreSpec
from ...golden.cores.golden_core import GoldenCore
from .device import SimulatedDevice
from .session import Bytes

Unit = Literal["batches", "steps"]
Device = GoldenDevice | SimulatedDevice
Spec = TypeVar("Spec", bound=CoreSpec, contravariant=True)


class Ended(Protocol):
    """Result of a job's command through a host driver."""

    @property
    def finished(self) -> Finished:
        """Cycles and counters of the command."""


class HostJob(Protocol[Spec]):
    """Job for a core's host driver, on any device.

    Attributes
    ----------
    inputs : array of int, (n, ...)
        Samples in the core's format.
    unit : "batches" or "steps"
    """

    unit: ClassVar[Unit]

    @property
    def inputs(self) -> NDArray[np.integer]: ...

    def golden(self, spec: Spec) -> GoldenCore[Any]:
        """Make the golden core for the job's network."""

    def host(self, core: Core, spec: Spec) -> Any:
        """Make the host driver."""

    def load(self, host: Any) -> None:
        """Load the network."""

    def start(self, host: Any) -> Bytes:
        """Load the initial parameters; return their image."""

    def run(self, host: Any) -> Ended:
        """Run the job's command."""

    def tuned(self, host: Any) -> Any:
        """Read the tuned parameters."""

    def forget(self, host: Any) -> None:
        """Empty the core's cache of samples."""

    def scratch(self, spec: Spec) -> tuple[str, ...]:
        """Names of regions whose contents come from commands before the job."""


@dataclass(frozen=True, eq=False)
class Played:
    """Effects of a job on a device.

    Parameters
    ----------
    ran, tuned : object
        Results of `HostJob.run` and `HostJob.tuned`.
    images : array of uint8, (batches or steps, bytes)
        Image of the parameters after each batch or step.
    records : sequence of CommandRecord
    """

    ran: Any
    tuned: Any
    images: Bytes
    records: Sequence[CommandRecord]

    def differences(self, other: Played, without: Sequence[str] = ()) -> list[str]:
        """Describe the updates and commands of another device that differ from golden's, which `self` holds."""
        count = len(self.images)
        found = [
            f"update {number} of {count}: {difference}"
            for number, images in enumerate(zip(self.images, other.images, strict=False), 1)
            if (difference := different_byte(*images, "what the monitor shows"))
        ]
        if len(other.images) != count:
            found.append(f"the monitor shows {len(other.images)} updates, golden has {count}")
        return [*found, *differences(self.records, other.records, without)]


def host_on(device: Device, job: HostJob[Any], spec: CoreSpec) -> Any:
    """Make the recording driver of a job on a device."""
    return job.host(RecordingCore.on(spec, device), spec)


def play(job: HostJob[Any], host: Any, device: Device, samples: NDArray[np.integer]) -> Played:
    """Run a job, then an inference of samples, on a core with a loaded network; `host` is from `host_on`."""
    before = len(device.traced_images)
    device.trace_image(job.start(host))
    ran, tuned = job.run(host), job.tuned(host)
    host.logits(samples)
    return Played(ran, tuned, device.traced_images[before:], host.core.records)


def played_on_golden(job: HostJob[Any], spec: CoreSpec, samples: NDArray[np.integer]) -> Played:
    """Load a job's network into its golden core, and play the job."""
    device = GoldenDevice(spec, job.golden(spec))
    host = host_on(device, job, spec)
    job.load(host)
    return play(job, host, device, samples)


class ShortJob:
    """Short job for stress tests, with golden's results.

    Attributes
    ----------
    counts : dict of str to int
        Counters of the job's command.
    """

    def __init__(self, spec: CoreSpec, job: Any) -> None:
        self.spec, self.job = spec, job
        device = GoldenDevice(spec, job.golden(spec))
        host = self.driver(device)
        self.load(host)
        self._golden = self._play(host, device)
        self.counts: dict[str, int] = self._golden.ran.finished.counts

    def driver(self, device: Device) -> Any:
        """Make the job's driver on a device."""
        return host_on(device, self.job, self.spec)

    def load(self, driver: Any) -> None:
        """Load the network."""
        self.job.load(driver)
        self.job.forget(driver)

    def differences(self, driver: Any, device: SimulatedDevice) -> list[str]:
        """Run the job on a core with the loaded network, and describe the differences from golden."""
        before = device.simulated
        played = self._play(driver, device)
        cycles = [record.cycles for record in played.records]
        found = self._golden.differences(played, self.job.scratch(self.spec))
        if not 0 < min(cycles) <= sum(cycles) < device.simulated - before:
            found.append(f"the core counts {cycles} cycles of {device.simulated - before}")
        return found

    def _play(self, host: Any, device: Device) -> Played:
        host.core.begin()
        played = play(self.job, host, device, self.job.inputs)
        self.job.forget(host)
        return played
