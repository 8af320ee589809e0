"""Zeroth-order training as a job for the host driver of any core that has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...boards.host.driver import Core
from ...boards.host.zeroth_order import Trained, ZerothOrderHost
from ...golden.cores.core import CoreSpec
from ...golden.cores.golden_core import golden_core
from ...golden.cores.zeroth_order.golden_core import ZerothOrderCore
from ...golden.fixed import Integers
from ...golden.train.zo.finetune import ZoResult
from ...golden.train.zo.integer import IntegerRun
from ...golden.zo.job import ZerothOrderStep
from ...golden.zo.memory_layout import StepOrder
from ...golden.zo.step_settings import StepSettings
from ..compiled.playing import Played, Unit
from ..compiled.session import Bytes


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """A zeroth-order job, see `compiled.playing.HostJob`.

    Parameters
    ----------
    network : object
        What the core's host driver loads: pre-trained weights and biases, Q4.12, or `StreamImages`.
    inputs : array of int, (n, ...)
        Samples as the core takes them.
    steps : sequence of StepOrder
        Indices, labels and rate of each step.
    settings : StepSettings
        With the core's loss.
    position : int
        Position of the first perturbation.
    deltas : array of int, (rows, n), optional
        Deltas at the start, as the core holds them; by default there are none, and none are loaded.
    """

    network: Any
    inputs: NDArray[np.integer]
    steps: Sequence[StepOrder]
    settings: StepSettings
    position: int = 0
    deltas: Integers | None = None
    unit: ClassVar[Unit] = "steps"

    def golden(self, spec: CoreSpec) -> ZerothOrderCore[Any]:
        """Make the golden core, which knows the network."""
        core = golden_core(spec)
        assert isinstance(core, ZerothOrderCore), f"{spec.name} does not train by zeroth order"
        core.know(self.network)
        return core

    def host(self, core: Core, spec: CoreSpec) -> ZerothOrderHost:
        """Make the host driver."""
        made: ZerothOrderHost = spec.part("boards", "job", "HOST")(core, spec)
        return made

    def load(self, host: Any) -> None:
        """Load the network."""
        host.load(self.network)

    def start(self, host: ZerothOrderHost) -> Bytes:
        """Load the deltas; return their image."""
        if self.deltas is None:
            return np.zeros(host.layout.deltas().size, np.uint8)
        host.load_deltas(self.deltas)
        return host.layout.deltas(self.deltas).image

    def run(self, host: ZerothOrderHost) -> Trained:
        """Train."""
        return host.train(self.inputs, self.steps, self.settings, self.position)

    def tuned(self, host: ZerothOrderHost) -> Integers:
        """Read the deltas."""
        return host.deltas()

    def forget(self, host: ZerothOrderHost) -> None:
        """Forget the forward cache."""
        host.forget()

    def scratch(self, spec: CoreSpec) -> tuple[str, ...]:
        """No region depends on commands before."""
        return ()


def adopt_moves(tuning: IntegerRun, result: ZoResult, played: Played) -> bool:
    """Sum a core's moves in place of a tuning's own, and test them where they differ; tell whether they do."""
    moved = tuning.job.total
    tuning.replay(played.ran.slopes)
    differs = not np.array_equal(tuning.job.total, moved)
    if differs:  # a pass through all held-out samples
        result.curve[-1] = (tuning.settings.schedule.steps, tuning.accuracy())
    result.tensors = dict(tuning.tensors())
    return differs


def same(one: ZerothOrderStep, other: ZerothOrderStep) -> bool:
    """Whether two records agree in everything."""
    mine, others = ((step.position, step.coefficient, step.difference) for step in (one, other))
    return mine == others and np.array_equal(one.words, other.words)
