"""Host driver of zeroth-order training, common to all cores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...golden.axi.regions import Region
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ...golden.fixed import Integers
from ...golden.rng.perturbation import POSITIONS
from ...golden.zo.coefficient import LARGEST_BATCH, RATE
from ...golden.zo.deltas import DELTA
from ...golden.zo.job import ZerothOrderStep
from ...golden.zo.memory_layout import LABEL_BIT, StepOrder, ZerothOrderLayout
from ...golden.zo.model import ModelWords
from ...golden.zo.step_settings import StepSettings
from .driver import Buffer, Core, Finished


@dataclass(frozen=True)
class Trained:
    """Result of a training command.

    Parameters
    ----------
    finished : Finished
    slopes : list of ZerothOrderStep
        One record for each projected gradient of each step.
    position : int
        Generator position of the next perturbation, from which another job continues.
    prepared : Finished, optional
        Cycles and counters of the computation before the steps, see `ZerothOrderHost.prepare`.
    """

    finished: Finished
    slopes: list[ZerothOrderStep]
    position: int
    prepared: Finished | None = None

    @property
    def whole(self) -> Finished:
        """Sums of cycles and counters over the steps and the computation before them."""
        one, before = self.finished, self.prepared or Finished(0, {})
        counts = {name: count + before.counts.get(name, 0) for name, count in one.counts.items()}
        return Finished(one.cycles + before.cycles, counts)


class ZerothOrderHost(ABC):
    """Zeroth-order training on a core: buffers and commands, except for loading the network.

    The core's commands are ``LOAD_DELTAS``, ``SAVE_DELTAS``, ``TRAIN`` and ``INFER``. A core of another spec is a
    `UserError`.
    """

    spec: Any

    def __init__(self, core: Core, spec: CoreSpec) -> None:
        core.check_signature(spec.signature)
        self.core, self.spec = core, spec
        self._deltas: Buffer | None = None

    # -- the core's own --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def layout(self) -> ZerothOrderLayout:
        """Layout of the regions in device memory."""

    @property
    @abstractmethod
    def words(self) -> ModelWords:
        """Number of words of a perturbation."""

    @property
    @abstractmethod
    def labels(self) -> int:
        """Number of labels."""

    @abstractmethod
    def check_settings(self, settings: StepSettings, batch: int) -> None:
        """Refuse unsupported settings, for steps of at most `batch` samples."""

    @abstractmethod
    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        """Registers of a training command for these settings."""

    def prepare(
        self, samples: Mapping[str, int], inputs: NDArray[np.integer], steps: Sequence[StepOrder]
    ) -> Finished | None:
        """Compute in advance what the steps need of the samples at these addresses; by default nothing."""
        return None

    def forget(self) -> None:  # noqa: B027
        """Empty the cache of samples; by default there is none."""

    def placed(self, inputs: NDArray[np.integer], regions: Sequence[Region]) -> dict[str, int]:
        """Place samples of steps; return their addresses."""
        return self._place(regions)

    @abstractmethod
    def samples(self, inputs: NDArray[np.integer]) -> Sequence[Region]:
        """Memory regions of samples; a `UserError` for another shape."""

    # -- commands --------------------------------------------------------------------------------------------------

    def load_deltas(self, rows: Integers) -> Finished:
        """Load the deltas of all words; they stay until the next load.

        Parameters
        ----------
        rows : array of int, (rows, n)
            In `golden.zo.deltas.DELTA`, from ``PerturbationTable.spread`` or `deltas`. Another shape or a value out of
            range is a `UserError`.
        """
        shape = len(self.layout.rows), self.layout.generator.width
        if rows.shape != shape:
            raise UserError(f"deltas of {rows.shape} are not of this core, whose deltas are {shape}")
        if rows.min() < DELTA.minimum or rows.max() > DELTA.maximum:
            raise UserError(f"a delta is outside {DELTA}")
        buffer = self._delta_buffer
        buffer.array[:] = self.layout.deltas(rows).image
        buffer.flush()
        return self._command("LOAD_DELTAS", deltas=buffer.device_address)

    def deltas(self) -> Integers:
        """Read the current deltas of all words, (words, n)."""
        buffer = self._delta_buffer
        self._command("SAVE_DELTAS", deltas=buffer.device_address)
        buffer.invalidate()
        return self.layout.deltas_of(buffer.array)

    def train(
        self, inputs: NDArray[np.integer], steps: Sequence[StepOrder], settings: StepSettings, position: int
    ) -> Trained:
        """Train with one command.

        Parameters
        ----------
        inputs : array of int, (n, ...)
            Samples in the core's format.
        steps : sequence of StepOrder
        settings : StepSettings
        position : int
            Position of the first perturbation.

        Raises
        ------
        UserError
            Without steps, or if samples, labels, rates, position or settings are out of range; in this case nothing is
            written.
        """
        layout, period = self.layout, self.layout.generator.period
        check_range("position", position, 0, min(period, POSITIONS) - 1)
        samples = self._samples(inputs)
        batch = self._check_steps(len(inputs), steps)
        self.check_settings(settings, batch)
        slopes, span = settings.split.slopes, settings.split.layout(self.words, period).span
        if period > POSITIONS:
            check_range("position of the last step", position + (len(steps) - 1) * span, 0, POSITIONS - 1)
        registers, places = self.step_registers(settings), self.placed(inputs, samples)
        prepared = self.prepare(places, inputs, steps)
        state = self.core.place(layout.state(position))
        records = self.core.place(layout.records(len(steps) * slopes, batch))
        finished = self._run(
            "TRAIN",
            places,
            len(inputs),
            steps,
            batch,
            state=state.device_address,
            records=records.device_address,
            position=position,
            **registers,
        )
        records.invalidate()
        sizes = [len(step.indices) for step in steps for _ in range(slopes)]
        found = layout.records_of(records.array, sizes, batch)
        return Trained(finished, found, (position + len(steps) * span) % period, prepared)

    def logits(self, inputs: NDArray[np.integer]) -> Integers:
        """Outputs of the network with the current deltas, (n, classes) in Q8.16.

        A `UserError` without samples, or for samples of another shape; in this case nothing is written.
        """
        indices = np.arange(len(inputs))
        parts = np.split(indices, range(LARGEST_BATCH, len(indices), LARGEST_BATCH))
        steps = [StepOrder(part, np.zeros_like(part), rate=0) for part in parts]
        samples = self._samples(inputs)
        batch = self._check_steps(len(inputs), steps)
        logits = self.core.place(self.layout.logits(len(inputs)))
        self._run("INFER", self._place(samples), len(inputs), steps, batch, logits=logits.device_address)
        logits.invalidate()
        return self.layout.logits_of(logits.array)

    def _samples(self, inputs: NDArray[np.integer]) -> Sequence[Region]:
        check_range("number of samples", len(inputs), 1, 1 << LABEL_BIT)
        return self.samples(inputs)

    def _place(self, regions: Sequence[Region]) -> dict[str, int]:
        """Addresses of placed regions, by register."""
        return {region.register: self.core.place(region).device_address for region in regions}

    @property
    def _delta_buffer(self) -> Buffer:
        """Buffer of the deltas; reused as long as the number of deltas stays the same."""
        region = self.layout.deltas()
        if self._deltas is None or self._deltas.array.size != region.size:
            self._deltas = self.core.place(region)
        return self._deltas

    def _command(self, name: str, **settings: int) -> Finished:
        return self.core.run(self.core.core.commands[name], **settings)

    def _run(
        self,
        command: str,
        samples: Mapping[str, int],
        count: int,
        steps: Sequence[StepOrder],
        batch: int,
        **settings: Any,
    ) -> Finished:
        """Place a sample schedule and run a command on it and on samples."""
        order = self.core.place(self.layout.order(steps, batch))
        addresses = {**samples, "order": order.device_address}
        counts = {"sample_count": count, "steps": len(steps), "batch": batch}
        return self._command(command, **addresses, **counts, **settings)

    def _check_steps(self, samples: int, steps: Sequence[StepOrder]) -> int:
        """Refuse steps that do not fit core and network; return the largest batch."""
        if not steps:
            raise UserError("there are no steps to run")
        for number, step in enumerate(steps):
            if step.indices.ndim != 1 or step.indices.shape != step.labels.shape:
                raise UserError(f"step {number} has indices {step.indices.shape} and labels {step.labels.shape}")
            check_range(f"number of samples of step {number}", len(step.indices), 1, LARGEST_BATCH)
            for value in (step.indices.min(), step.indices.max()):
                check_range(f"an index of step {number}", value, 0, samples - 1)
            for value in (step.labels.min(), step.labels.max()):
                check_range(f"a label of step {number}", value, 0, self.labels - 1)
            check_range(f"rate of step {number}", step.rate, 0, RATE.maximum)
        return max(len(step.indices) for step in steps)


def check_range(name: str, value: int, least: int, most: int) -> None:
    """Raise a `UserError` if a value is out of range."""
    if not least <= value <= most:
        raise UserError(f"{name} = {value} is not in {least} to {most}")
