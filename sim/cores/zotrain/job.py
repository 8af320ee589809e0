"""Run a zeroth-order job on the compiled core and compare it with the integer job after every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....boards.host.driver import Core
from ....boards.host.zeroth_order import Trained
from ....golden.cores.zotrain.registers import CORE
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.fixed import Integers
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.zo.job import ZerothOrderJob, ZerothOrderStep
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...compiled.comparison import Comparison, compare, wrong_counts
from ...compiled.device import SimulatedDevice
from ...compiled.session import Bytes, Dram


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """A zeroth-order job in integers, as the integer job and the core take it.

    Parameters
    ----------
    frozen : sequence of StageIntegers
        Pre-trained weights and biases, Q4.12.
    inputs : array of int, (n, *input_shape)
        Bytes or Q8.16, as the core was generated.
    steps : sequence of StepOrder
        Indices, labels and rate of each step.
    settings : StepSettings
        With the core's loss.
    position : int
        Position of the first perturbation.
    deltas : array of int, optional
        Deltas at the start, see `ZerothOrderJob.total`; by default there are none.
    """

    frozen: Sequence[StageIntegers]
    inputs: NDArray[np.integer]
    steps: Sequence[StepOrder]
    settings: StepSettings
    position: int = 0
    deltas: Integers | None = None

    def golden(self, spec: ZotrainSpec) -> ZerothOrderJob:
        """Make the integer job, before its first step."""
        model = NetworkModel(spec.mapping, self.frozen)
        return ZerothOrderJob(model, spec.source, self.settings, self.position, self.deltas)

    def run_golden(self, spec: ZotrainSpec, job: ZerothOrderJob) -> Iterator[list[ZerothOrderStep]]:
        """Run all steps on an integer job; after each one the job holds what the core must hold then."""
        values = spec.values_of(self.inputs)
        for step in self.steps:
            yield job.step(values[step.indices], step.labels, step.rate)

    def driver(self, spec: ZotrainSpec, device: SimulatedDevice) -> ZerothOrderTrainer:
        """Make a host driver of a core."""
        return ZerothOrderTrainer(Core(CORE, device, device, device.interrupt), spec)

    def load(self, trainer: ZerothOrderTrainer) -> None:
        """Load network and deltas into a core."""
        trainer.load(self.frozen)
        if self.deltas is not None:
            trainer.load_deltas(self.golden(trainer.spec).rows)

    def run_core(self, trainer: ZerothOrderTrainer, device: SimulatedDevice) -> tuple[Trained, Bytes]:
        """Run all steps on a loaded core; return its result and the deltas' image after each step."""
        before = len(device.traced_images)
        device.trace_image(trainer.layout.deltas(self.golden(trainer.spec).rows).image)
        trained = trainer.train(self.inputs, self.steps, self.settings, self.position)
        return trained, device.traced_images[before:]

    def found(self, trainer: ZerothOrderTrainer) -> Integers:
        """Read the core's deltas."""
        return trainer.deltas()

    def mismatches(
        self, spec: ZotrainSpec, golden: ZerothOrderJob, trained: Trained, traced: Bytes, found: Integers
    ) -> int:
        """Run the integer job, count what differs in the core's, and give it the core's deltas."""
        wrong = abs(len(traced) - len(self.steps))
        steps = zip(self.run_golden(spec, golden), self.settings.split.steps(trained.slopes), strict=True)
        for number, (step, slopes) in enumerate(steps):
            wrong += not all(same(*pair) for pair in zip(step, slopes, strict=True))
            wrong += number < len(traced) and not np.array_equal(traced[number], spec.layout.deltas(golden.rows).image)
        wrong += not np.array_equal(found, golden.rows)
        wrong += wrong_counts(trained.finished, counts_of(golden, len(self.steps)))
        golden.rows = found
        return wrong


@dataclass(frozen=True, kw_only=True)
class ZerothOrderComparison(Comparison):
    """Comparison of a job on the simulated core with the integer job; mismatches are of the kinds below.

    Steps with a wrong record, steps after which a delta is wrong, final deltas or counters that differ, samples with a
    wrong logit. Compared are steps: their record, and all deltas after each.
    """

    @property
    def facts(self) -> dict[str, Any]:
        """Figures for a report, by the keys of ``--json``."""
        per_step = {"cycles_per_step": round(self.cycles / self.compared) if self.compared else None}
        return super().facts | {"steps_compared": self.compared} | per_step


def compare_zeroth_order(
    spec: ZotrainSpec,
    job: TrainingJob,
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
    spec : ZotrainSpec
    job : TrainingJob
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


def counts_of(golden: ZerothOrderJob, steps: int) -> dict[str, int]:
    """Counters of a training command, as the integer job has them behind its last step."""
    return {
        "steps_done": steps,
        "saturations": golden.saturations,
        "coefficients_clipped": golden.coefficients_clipped,
    }
