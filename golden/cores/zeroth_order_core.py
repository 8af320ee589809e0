"""Golden model of the zeroth-order trainer: what all cores do that train by zeroth order, whatever they train."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..axi.bus import BEAT
from ..errors import UserError
from ..fixed import Integers, Narrower
from ..nn.arithmetic.loss import Loss
from ..zo.job import ZerothOrderJob
from ..zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS, StepOrder, ZerothOrderLayout
from ..zo.model import PerturbedModel
from ..zo.split import Split
from ..zo.step_settings import StepSettings
from .core import SettingValues
from .golden_core import CommandError, CoreMemory, GoldenCore, Spec, known


class ZerothOrderCore(GoldenCore[Spec]):
    """Golden model of a core that trains by zeroth order: its commands but for those that load a network.

    A core's commands are called ``LOAD_DELTAS``, ``SAVE_DELTAS``, ``TRAIN`` and ``INFER``, as in
    `boards.host.zeroth_order`. A step is complete before the next one is read. What a command with an error wrote, and
    the deltas behind it, are those of the steps before; a core may have fewer.

    Attributes
    ----------
    model : PerturbedModel or None
        Network, once one has been loaded.
    rows : array of int, (rows, n), or None
        Deltas, once they have been loaded.
    """

    model: PerturbedModel | None
    rows: Integers | None

    def reset(self) -> None:
        """Forget network and deltas."""
        self.model = self.rows = None

    @property
    @abstractmethod
    def layout(self) -> ZerothOrderLayout:
        """Images of a job."""

    @property
    @abstractmethod
    def labels(self) -> int:
        """Labels that a sample can have."""

    @property
    def loss(self) -> Loss:
        """Loss of the core's steps."""
        return "cross_entropy"

    @abstractmethod
    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        """Settings of steps as the registers of a training command."""

    @abstractmethod
    def load(self, settings: SettingValues, memory: CoreMemory) -> PerturbedModel:
        """Load a network from its images."""

    @abstractmethod
    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample as the model takes it."""

    @abstractmethod
    def counters(self, job: ZerothOrderJob) -> dict[str, int]:
        """Counters of a training command, as a job has them, but for the steps."""

    def carry_out(self, command: Any, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Carry out a command that is not refused."""
        if command.name == "LOAD":
            self.model = self.load(settings, memory)
            self.rows = np.zeros((len(self.layout.rows), self.layout.generator.width), np.int64)
        elif command.name == "LOAD_DELTAS":
            self.rows = self.layout.deltas_of(memory.read(settings["deltas"], self.layout.deltas().size))
        elif command.name == "SAVE_DELTAS":
            memory.write(settings["deltas"], self.layout.deltas(known(self.rows, "deltas")).image)
        elif command.name == "TRAIN":
            return self._train(settings, memory)
        elif command.name == "INFER":
            return self._infer(settings, memory)
        return {}

    def _train(self, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        layout, batch, position = self.layout, settings["batch"], settings["position"]
        state = layout.state(position)
        if memory.read(settings["state"], state.size).tobytes() != state.image.tobytes():
            raise UserError(f"the image at state is not the generator's state at position = {position}")
        split = Split(settings["cut"], settings["p1"], settings["p2"])
        steps = StepSettings(
            eps_shift=settings["eps_shift"],
            shift=settings["shift"],
            split=split,
            scalars=bool(settings["scalars"]),
            loss=self.loss,
        )
        if settings["gap"] != (gap := self.step_registers(steps)["gap"]):
            raise UserError(f"gap = {settings['gap']}: the golden core has that of the host's jobs, {gap}")
        job = self._job(steps, position)
        record, size = settings["records"], layout.record_beats(batch) * BEAT * split.slopes
        for step, inputs in self._steps(settings, memory):
            slopes = job.step(inputs, step.labels, step.rate)
            memory.write(record, layout.records_image(slopes, batch))
            record, self.rows = record + size, job.rows
        return self.counters(job) | {"steps_done": settings["steps"]}

    def _infer(self, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        address, job, narrow = settings["logits"], self._job(StepSettings(loss=self.loss)), Narrower()
        for _, inputs in self._steps(settings, memory):
            image = self.layout.logits_image(job.logits(inputs, narrow))
            memory.write(address, image)
            address += image.size
        return {"saturations": narrow.saturations}

    def _job(self, settings: StepSettings, position: int = 0) -> ZerothOrderJob:
        """Make the integer job of the network with the present deltas."""
        job = ZerothOrderJob(known(self.model, "parameters"), self.layout.generator, settings, position)
        job.rows = known(self.rows, "deltas")
        return job

    def _steps(self, settings: SettingValues, memory: CoreMemory) -> Iterator[tuple[StepOrder, Integers]]:
        """Read steps of the order list, each with its samples: beat by beat, as the core does."""
        beats = self.layout.step_beats(settings["batch"])
        for number in range(settings["steps"]):
            first = settings["order"] + number * beats * BEAT
            words = self._words(first, memory)
            word = next(words)
            samples = (word >> COUNT_BIT) + 1
            if samples > settings["batch"]:
                raise CommandError("BAD_STEP", word)
            entries, inputs = [], []
            for _ in range(samples):
                entry = next(words)
                if (index := entry & ((1 << LABEL_BIT) - 1)) >= settings["sample_count"]:
                    raise CommandError("BAD_INDEX", entry)
                if entry >> LABEL_BIT >= self.labels:
                    raise CommandError("BAD_LABEL", entry)
                inputs.append(self.sample(index, settings, memory))
                entries.append(entry)
            chosen = np.array(entries, np.int64)
            rate = word & ((1 << COUNT_BIT) - 1)
            yield StepOrder(chosen & ((1 << LABEL_BIT) - 1), chosen >> LABEL_BIT, rate), self.together(inputs)

    @staticmethod
    def together(samples: list[Integers]) -> Integers:
        """Make a batch of samples."""
        return np.stack(samples)

    @staticmethod
    def _words(address: int, memory: CoreMemory) -> Iterator[int]:
        """Read words of a list, beat by beat."""
        while True:
            yield from memory.read(address, BEAT).view("<u4").tolist()
            address += WORDS * 4
