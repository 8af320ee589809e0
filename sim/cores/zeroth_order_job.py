"""Run a zeroth-order job of any core on the compiled one and compare it with the integer job after every step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...boards.host.zeroth_order import Trained, ZerothOrderHost
from ...golden.cores.core import CoreSpec
from ...golden.fixed import Integers
from ...golden.zo.job import ZerothOrderJob, ZerothOrderStep
from ...golden.zo.memory_layout import StepOrder, ZerothOrderLayout
from ...golden.zo.step_settings import StepSettings
from ..compiled.comparison import Comparison, compare, wrong_counts
from ..compiled.device import SimulatedDevice
from ..compiled.session import Bytes, Dram

Spec = TypeVar("Spec", bound=CoreSpec)
Host = TypeVar("Host", bound=ZerothOrderHost)


class CoreJob(ABC, Generic[Spec, Host]):
    """A zeroth-order job in integers, as the integer job and a core take it; see `compiled.comparison.ComparedJob`.

    Attributes
    ----------
    inputs : array of int, (n, ...)
        Samples as the core takes them.
    steps : sequence of StepOrder
        Indices, labels and rate of each step.
    settings : StepSettings
        With the core's loss.
    position : int
        Position of the first perturbation.
    deltas : array of int, optional
        Deltas at the start, see `ZerothOrderJob.total`; by default there are none.
    """

    inputs: NDArray[np.integer]
    steps: Sequence[StepOrder]
    settings: StepSettings
    position: int
    deltas: Integers | None

    # -- the core's own --------------------------------------------------------------------------------------------

    @abstractmethod
    def golden(self, spec: Spec) -> ZerothOrderJob:
        """Make the integer job, before its first step."""

    @abstractmethod
    def driver(self, spec: Spec, device: SimulatedDevice) -> Host:
        """Make a host driver of a core."""

    @abstractmethod
    def load_network(self, host: Host) -> None:
        """Load the network into a core."""

    @abstractmethod
    def layout(self, spec: Spec) -> ZerothOrderLayout:
        """Regions of the job's device memory."""

    @staticmethod
    @abstractmethod
    def counts(golden: ZerothOrderJob, steps: int) -> dict[str, int]:
        """Counters of a training command, as the integer job has them behind its last step."""

    # -- the job ---------------------------------------------------------------------------------------------------

    def run_golden(self, spec: Spec, job: ZerothOrderJob) -> Iterator[list[ZerothOrderStep]]:
        """Run all steps on an integer job; after each one the job holds what the core must hold then."""
        values = spec.values_of(self.inputs)
        for step in self.steps:
            yield job.step(values[step.indices], step.labels, step.rate)

    def load(self, host: Host) -> None:
        """Load network and deltas into a core."""
        self.load_network(host)
        if self.deltas is not None:
            host.load_deltas(self.golden(host.spec).rows)

    def run_core(self, host: Host, device: SimulatedDevice) -> tuple[Trained, Bytes]:
        """Run all steps on a loaded core; return its result and the deltas' image after each step."""
        before = len(device.traced_images)
        device.trace_image(host.layout.deltas(self.golden(host.spec).rows).image)
        trained = host.train(self.inputs, self.steps, self.settings, self.position)
        return trained, device.traced_images[before:]

    def write_activity(self, spec: Spec, device: SimulatedDevice, file: Path, period_ps: int) -> tuple[int, bool]:
        """Write the activity of all steps on a core; return their cycles, and whether the deltas are golden's."""
        host = self.driver(spec, device)
        self.load(host)
        device.waves(file, period_ps)
        trained = host.train(self.inputs, self.steps, self.settings, self.position)
        device.end_waves()
        golden = self.golden(spec)
        for _ in self.run_golden(spec, golden):
            pass
        return trained.finished.cycles, np.array_equal(host.deltas(), golden.rows)

    def found(self, host: Host) -> Integers:
        """Read the core's deltas."""
        return host.deltas()

    def mismatches(self, spec: Spec, golden: ZerothOrderJob, trained: Trained, traced: Bytes, found: Integers) -> int:
        """Run the integer job, count what differs in the core's, and give it the core's deltas."""
        wrong, image = abs(len(traced) - len(self.steps)), self.layout(spec).deltas
        steps = zip(self.run_golden(spec, golden), self.settings.split.steps(trained.slopes), strict=True)
        for number, (step, slopes) in enumerate(steps):
            wrong += not all(same(*pair) for pair in zip(step, slopes, strict=True))
            wrong += number < len(traced) and not np.array_equal(traced[number], image(golden.rows).image)
        wrong += not np.array_equal(found, golden.rows)
        wrong += wrong_counts(trained.whole, self.counts(golden, len(self.steps)))
        golden.rows = found
        return wrong


@dataclass(frozen=True, kw_only=True)
class ZerothOrderComparison(Comparison):
    """Comparison of a job on the simulated core with the integer job; mismatches are of the kinds below.

    Steps with a wrong record, steps after which a delta is wrong, final deltas or counters that differ, samples with a
    wrong logit. Compared are steps: their record, and all deltas after each.

    Parameters
    ----------
    difference : str, optional
        First place inside the core that differs, where it was looked for.
    """

    difference: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for a report, by the keys of ``--json``."""
        per_step = {"cycles_per_step": round(self.cycles / self.compared) if self.compared else None}
        place = {"first_difference": self.difference} if self.difference else {}
        return super().facts | {"steps_compared": self.compared} | per_step | place


def compare_zeroth_order(
    spec: Spec,
    job: CoreJob[Spec, Any],
    held_out: NDArray[np.integer],
    dram: Dram | None = None,
    seed: int = 0,
    stage: Callable[[str], None] = lambda _: None,
) -> tuple[list[ZerothOrderStep], ZerothOrderComparison]:
    """Emit, compile and simulate a core, run a job on it through the host driver, and compare.

    Compared are the record of every step (position, coefficient, loss difference, words of the samples), all deltas
    after every step, the final deltas, the counters, and the logits of held-out samples with the core's deltas.

    Parameters
    ----------
    spec : CoreSpec
    job : CoreJob
    held_out, dram, seed, stage
        See `compiled.comparison.compare`.

    Returns
    -------
    list of ZerothOrderStep
        The core's records, one for each slope.
    ZerothOrderComparison
    """
    trained, _, _, comparison = compare(ZerothOrderComparison, spec, job, held_out, dram, seed, stage)
    return trained.slopes, comparison


def same(one: ZerothOrderStep, other: ZerothOrderStep) -> bool:
    """Whether two records agree in everything."""
    return (one.position, one.coefficient, one.difference) == (
        other.position,
        other.coefficient,
        other.difference,
    ) and np.array_equal(one.words, other.words)
