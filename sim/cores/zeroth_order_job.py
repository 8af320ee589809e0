"""Zeroth-order training as a job for the host driver of any core that trains by zeroth order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...boards.host.driver import Core
from ...boards.host.zeroth_order import Trained, ZerothOrderHost
from ...golden.cores.core import CoreSpec
from ...golden.cores.golden_core import golden_core
from ...golden.cores.zeroth_order.golden_core import GoldenZerothOrder
from ...golden.fixed import Integers
from ...golden.nn.arithmetic.loss import Loss
from ...golden.train.zo.finetune import ZoResult
from ...golden.train.zo.integer import IntegerRun
from ...golden.zo.job import ZerothOrderStep
from ...golden.zo.memory_layout import StepOrder
from ...golden.zo.split import Split
from ...golden.zo.step_settings import StepSettings
from ..compiled.playing import Played, Unit
from ..compiled.session import Bytes
from ..phase import Phase
from .recorded_phases import RecordedCore


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """Zeroth-order job, see `compiled.playing.HostJob`.

    Parameters
    ----------
    network : object
        Argument of the host driver's `load`: weights and biases in Q4.12, or `StreamImages`.
    inputs : array of int, (n, ...)
        Samples in the core's format.
    steps : sequence of StepOrder
    settings : StepSettings
        With the core's loss.
    position : int
        Position of the first perturbation.
    deltas : array of int, (rows, n), optional
        Initial deltas in the core's format; by default none are loaded.
    """

    network: Any
    inputs: NDArray[np.integer]
    steps: Sequence[StepOrder]
    settings: StepSettings
    position: int = 0
    deltas: Integers | None = None
    unit: ClassVar[Unit] = "steps"

    def golden(self, spec: CoreSpec) -> GoldenZerothOrder[Any]:
        core = golden_core(spec)
        assert isinstance(core, GoldenZerothOrder), f"{spec.name} does not train by zeroth order"
        core.know(self.network)
        return core

    def host(self, core: Core, spec: CoreSpec) -> ZerothOrderHost:
        made: ZerothOrderHost = spec.part("boards", "job", "HOST")(core, spec)
        return made

    def load(self, host: Any) -> None:
        host.load(self.network)

    def start(self, host: ZerothOrderHost) -> Bytes:
        if self.deltas is None:
            return np.zeros(host.layout.deltas().size, np.uint8)
        host.load_deltas(self.deltas)
        return host.layout.deltas(self.deltas).image

    def run(self, host: ZerothOrderHost) -> Trained:
        return host.train(self.inputs, self.steps, self.settings, self.position)

    def tuned(self, host: ZerothOrderHost) -> Integers:
        return host.deltas()

    def forget(self, host: ZerothOrderHost) -> None:
        host.forget()

    def scratch(self, spec: CoreSpec) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class StepVariation:
    """Settings of the steps of a short job.

    Parameters
    ----------
    sizes : tuple of int
        Samples of each step.
    gain : float
        Scale of the network's parameters; from about 40 on most activations are clipped.
    rate : int
        Rate of the first step; it grows by 1 with each step.
    shift, eps_shift, scalars
        See `StepSettings`.
    start : int
        Largest initial delta; 0: no deltas are loaded.
    late : bool
        The job starts at one of the last positions of the generator, which then wraps.
    """

    sizes: tuple[int, ...] = (4, 1, 3)
    gain: float = 1.0
    rate: int = 40_000
    shift: int = 24
    eps_shift: int = 10
    scalars: bool = False
    start: int = 0
    late: bool = False

    def settings(self, split: Split, loss: Loss = "cross_entropy") -> StepSettings:
        """Settings of all steps."""
        return StepSettings(eps_shift=self.eps_shift, shift=self.shift, split=split, scalars=self.scalars, loss=loss)

    def steps(self, drawn: Sequence[Integers], labels: Integers) -> list[StepOrder]:
        """Steps on these indices of samples."""
        return [StepOrder(one, labels[one], self.rate + number) for number, one in enumerate(drawn)]


def training_phases(
    core: RecordedCore, host: ZerothOrderHost, jobs: Sequence[TrainingJob], entries: int, midway: tuple[int, int]
) -> list[Phase]:
    """Record three phases: a job from reset; the next job from there, with an inference; a third with an inference.

    Parameters
    ----------
    core : RecordedCore
    host : ZerothOrderHost
    jobs : sequence of TrainingJob
        Three jobs; the third has deltas, and may have another network.
    entries : int
        Number of samples of an inference, taken from the training before.
    midway : tuple of int
        Smallest and largest number of cycles before the reset that interrupts the first training.
    """
    first, second, third = jobs
    commands = core.core.commands

    def save_and_infer() -> Phase:
        core.run(commands["SAVE_DELTAS"])
        core.run(commands["INFER"], logits=core.place(host.layout.logits(entries)).device_address)
        return core.phase()

    first.load(host)
    position = first.run(host).position
    waited = core.last_wait
    host.deltas()
    phases = [core.phase(reset=True, midway=(waited, *midway))]
    replace(second, position=position).run(host)
    phases.append(save_and_infer())
    if third.network is not first.network:
        third.load(host)
    third.start(host)
    third.run(host)
    return [*phases, save_and_infer()]


def adopt_moves(tuning: IntegerRun, result: ZoResult, played: Played) -> bool:
    """Replace a tuning's moves by a core's; if they differ, test again. Return whether they differ."""
    moved = tuning.job.total
    tuning.replay(played.ran.slopes)
    differs = not np.array_equal(tuning.job.total, moved)
    if differs:  # a pass through all held-out samples
        result.curve[-1] = (tuning.settings.schedule.steps, tuning.accuracy())
    result.tensors = dict(tuning.tensors())
    return differs


def same(one: ZerothOrderStep, other: ZerothOrderStep) -> bool:
    """Whether two records are equal."""
    mine, others = ((step.position, step.coefficient, step.difference) for step in (one, other))
    return mine == others and np.array_equal(one.words, other.words)
