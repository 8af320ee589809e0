"""Golden model of the trainer by zeroth order, for any engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...axi.bus import BEAT
from ...errors import UserError
from ...fixed import Integers, Narrower
from ...nn.arithmetic.loss import Loss
from ...zo.job import ZerothOrderJob
from ...zo.memory_layout import COUNT_BIT, LABEL_BIT, WORDS, StepOrder, ZerothOrderLayout
from ...zo.model import PerturbedModel
from ...zo.split import Split
from ...zo.step_settings import StepSettings
from ..core import SettingValues
from ..golden_core import CommandError, CoreMemory, GoldenCore, Spec, known


class GoldenZerothOrder(GoldenCore[Spec]):
    """Golden model of a core that trains by zeroth order.

    The commands are ``LOAD``, ``LOAD_DELTAS``, ``SAVE_DELTAS``, ``TRAIN`` and ``INFER``, as in
    `boards.host.zeroth_order`. The model completes each step before it reads the next, so a failing command has written
    the records of all steps before the error. The core reads ahead and may have written more or fewer bytes.

    Attributes
    ----------
    model : PerturbedModel or None
        Loaded network.
    rows : array of int, (rows, n), or None
        Loaded deltas.
    """

    job: ClassVar[type[ZerothOrderJob]] = ZerothOrderJob
    """Steps of the trainer."""
    model: PerturbedModel | None
    rows: Integers | None

    def reset(self) -> None:
        """Forget network and deltas."""
        self.model = self.rows = None

    @property
    @abstractmethod
    def layout(self) -> ZerothOrderLayout:
        """Memory regions of a job."""

    @property
    @abstractmethod
    def labels(self) -> int:
        """Number of labels."""

    @property
    def loss(self) -> Loss:
        """Loss of the core's steps."""
        return "cross_entropy"

    @abstractmethod
    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        """Registers of a training command for the settings of its steps."""

    @abstractmethod
    def load(self, settings: SettingValues, memory: CoreMemory) -> PerturbedModel:
        """Load a network from memory."""

    @abstractmethod
    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample in the model's format."""

    @abstractmethod
    def saturations(self, clipped: int, named: int) -> dict[str, int]:
        """Counters of clipped values.

        Parameters
        ----------
        clipped : int
            All clipped values.
        named : int
            Clipped values whose place in the network is known.
        """

    @property
    def cut(self) -> int:
        """Cut of the network in its program, which no setting changes; 0 without such a cut."""
        return 0

    def split(self, settings: SettingValues) -> Split:
        """Split of the steps of a training command."""
        return Split(settings["cut"], settings["p1"], settings["p2"])

    def know(self, network: Any) -> None:
        """Add a network for `LOAD`; for engines whose memory lacks the full description of a network."""

    def before_step(self, job: ZerothOrderJob, inputs: Integers) -> None:
        """Model the core's side effects on a step's samples, before the step's losses; none by default."""

    def carry_out(self, command: Any, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
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
        split = self.split(settings)
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
        self.note_update(lambda: layout.deltas(job.rows).image)
        for step, inputs in self.steps(settings, memory):
            self.before_step(job, inputs)
            slopes = job.step(inputs, step.labels, step.rate)
            memory.write(record, layout.records_image(slopes, batch))
            record, self.rows = record + size, job.rows
            self.note_update(lambda: layout.deltas(job.rows).image)
        return self.counters(job) | {"steps_done": settings["steps"]}

    def counters(self, job: ZerothOrderJob) -> dict[str, int]:
        """Counters of a training, except the number of steps."""
        clipped = self.saturations(job.saturations, sum(job.saturated_places.values()))
        return clipped | {"coefficients_clipped": job.coefficients_clipped}

    def _infer(self, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        steps, narrow = StepSettings(loss=self.loss, split=Split(self.cut)), Narrower()
        address, job = settings["logits"], self._job(steps)
        for _, inputs in self.steps(settings, memory):
            self.before_step(job, inputs)
            image = self.layout.logits_image(job.logits(inputs, narrow))
            memory.write(address, image)
            address += image.size
        return self.saturations(narrow.saturations, sum(narrow.named.values()))

    def _job(self, settings: StepSettings, position: int = 0) -> ZerothOrderJob:
        """Integer job of the network, with the loaded deltas."""
        job = self.job(known(self.model, "parameters"), self.layout.generator, settings, position)
        job.rows = known(self.rows, "deltas")
        return job

    def steps(self, settings: SettingValues, memory: CoreMemory) -> Iterator[tuple[StepOrder, Integers]]:
        """Read the steps of the sample schedule with their samples, beat by beat like the core."""
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

    def together(self, samples: list[Integers]) -> Integers:
        """Batch of samples."""
        return np.stack(samples)

    @staticmethod
    def _words(address: int, memory: CoreMemory) -> Iterator[int]:
        """Read words of the schedule, beat by beat."""
        while True:
            yield from memory.read(address, BEAT).view("<u4").tolist()
            address += WORDS * 4
