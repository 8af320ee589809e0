"""Train on the zeroth-order core from the host: regions of device memory in buffers, commands, records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....golden.cores.zotrain.registers import Command
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.errors import UserError
from ....golden.fixed import Integers
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.rng.perturbation import POSITIONS
from ....golden.zo.coefficient import LARGEST_BATCH, RATE
from ....golden.zo.deltas import DELTA
from ....golden.zo.job import ZerothOrderStep
from ....golden.zo.memory_layout import LABEL_BIT, StepOrder
from ....golden.zo.step_settings import StepSettings
from ...host.driver import Buffer, Core, Finished


@dataclass(frozen=True)
class Trained:
    """Result of a training command.

    Parameters
    ----------
    finished : Finished
        Cycles, steps, values and coefficients clipped.
    slopes : list of ZerothOrderStep
        Record of each slope of each step.
    position : int
        Position of the next perturbation, from which another job goes on.
    """

    finished: Finished
    slopes: list[ZerothOrderStep]
    position: int


class ZerothOrderTrainer:
    """Zeroth-order training on a core: its buffers and its commands.

    Parameters
    ----------
    core : Core
        Driver of a core on a board, or of a simulated one.
    spec : ZotrainSpec
        Parameters that the core was generated with.

    Raises
    ------
    UserError
        If the core was generated with another spec.
    """

    def __init__(self, core: Core, spec: ZotrainSpec) -> None:
        core.check_signature(spec.signature)
        self.core, self.spec, self.layout = core, spec, spec.layout
        self._deltas = core.place(self.layout.deltas())

    def load(self, frozen: Sequence[StageIntegers]) -> Finished:
        """Load the pre-trained network; all deltas become 0."""
        buffer = self.core.place(self.layout.parameters(frozen))
        return self.core.run(Command.LOAD, parameters=buffer.device_address)

    def load_deltas(self, rows: Integers) -> Finished:
        """Load the deltas of all words; they stay until the next load.

        Parameters
        ----------
        rows : array of int, (rows, n)
            `golden.zo.deltas.DELTA`: a job's, from ``PerturbationTable.spread``, or those that `deltas` gave.

        Raises
        ------
        UserError
            If there is not a row of n for each word, or a delta is out of range.
        """
        shape = self.spec.mapping.all_rows, self.spec.source.width
        if rows.shape != shape:
            raise UserError(f"deltas of {rows.shape} are not of this core, whose deltas are {shape}")
        if rows.min() < DELTA.minimum or rows.max() > DELTA.maximum:
            raise UserError(f"a delta is outside {DELTA}")
        self._deltas.array[:] = self.layout.deltas(rows).image
        self._deltas.flush()
        return self.core.run(Command.LOAD_DELTAS, deltas=self._deltas.device_address)

    def deltas(self) -> Integers:
        """Read the deltas of all words as they are now: (words, n)."""
        self.core.run(Command.SAVE_DELTAS, deltas=self._deltas.device_address)
        self._deltas.invalidate()
        return self.layout.deltas_of(self._deltas.array)

    def train(
        self, inputs: NDArray[np.integer], steps: Sequence[StepOrder], settings: StepSettings, position: int
    ) -> Trained:
        """Train with one command.

        Parameters
        ----------
        inputs : array of int, (n, *input_shape)
            Bytes or Q8.16, as the core was generated.
        steps : sequence of StepOrder
            Indices, labels and rate of each step.
        settings : StepSettings
        position : int
            Position of the first perturbation.

        Raises
        ------
        UserError
            If there are no steps, or samples, labels, a rate or the position are out of range, or the core has another
            loss, or keeps fewer samples at the cut than a step has; nothing is written then.
        """
        spec, period = self.spec, self.spec.source.period
        _check("position", position, 0, min(period, POSITIONS) - 1)
        if settings.loss != spec.loss:
            raise UserError(f"loss = {settings.loss}: the core was generated with loss = {spec.loss}")
        batch = self._check_steps(inputs, steps)
        spec.check_split(settings.split, batch)
        slopes, span = settings.split.slopes, settings.split.layout(spec.mapping, period).span
        if period > POSITIONS:
            _check("position of the last step", position + (len(steps) - 1) * span, 0, POSITIONS - 1)
        state = self.core.place(self.layout.state(position))
        records = self.core.place(self.layout.records(len(steps) * slopes, batch))
        finished = self._run(
            Command.TRAIN,
            inputs,
            steps,
            batch,
            state=state.device_address,
            records=records.device_address,
            position=position,
            **spec.step_registers(settings),
        )
        records.invalidate()
        sizes = [len(step.indices) for step in steps for _ in range(slopes)]
        found = self.layout.records_of(records.array, sizes, batch)
        return Trained(finished, found, (position + len(steps) * span) % period)

    def logits(self, inputs: NDArray[np.integer]) -> Integers:
        """Outputs of the network with the deltas as they are now: (n, classes) in Q8.16.

        Raises
        ------
        UserError
            If there are no samples, or they do not have the network's shape; nothing is written then.
        """
        indices = np.arange(len(inputs))
        parts = np.split(indices, range(LARGEST_BATCH, len(indices), LARGEST_BATCH))
        steps = [StepOrder(part, np.zeros_like(part), rate=0) for part in parts]
        batch = self._check_steps(inputs, steps)
        logits = self.core.place(self.layout.logits(len(inputs)))
        self._run(Command.INFER, inputs, steps, batch, logits=logits.device_address)
        logits.invalidate()
        return self.layout.logits_of(logits.array)

    def _run(
        self,
        command: Command,
        inputs: NDArray[np.integer],
        steps: Sequence[StepOrder],
        batch: int,
        **settings: int,
    ) -> Finished:
        """Place samples and order list, then run a command on them; other settings as given."""
        regions = (self.layout.samples(inputs), self.layout.order(steps, batch))
        buffers: dict[str, Buffer] = {region.register: self.core.place(region) for region in regions}
        addresses = {register: buffer.device_address for register, buffer in buffers.items()}
        counts = {"sample_count": len(inputs), "steps": len(steps), "batch": batch}
        return self.core.run(command, **addresses, **counts, **settings)

    def _check_steps(self, inputs: NDArray[np.integer], steps: Sequence[StepOrder]) -> int:
        """Refuse samples and steps that do not fit core and network; return the size of the largest step."""
        shape = self.spec.mapping.forward.input_shape
        if inputs.shape[1:] != shape:
            raise UserError(f"samples of {inputs.shape[1:]} for {self.spec.network}, which takes {shape}")
        _check("number of samples", len(inputs), 1, 1 << LABEL_BIT)
        if not steps:
            raise UserError("there are no steps to run")
        for number, step in enumerate(steps):
            if step.indices.ndim != 1 or step.indices.shape != step.labels.shape:
                raise UserError(f"step {number} has indices {step.indices.shape} and labels {step.labels.shape}")
            _check(f"number of samples of step {number}", len(step.indices), 1, LARGEST_BATCH)
            for value in (step.indices.min(), step.indices.max()):
                _check(f"an index of step {number}", value, 0, len(inputs) - 1)
            for value in (step.labels.min(), step.labels.max()):
                _check(f"a label of step {number}", value, 0, self.spec.labels - 1)
            _check(f"rate of step {number}", step.rate, 0, RATE.maximum)
        return max(len(step.indices) for step in steps)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UserError(f"{name} = {value} is not in {least} to {most}")
