"""Bench of `zotrain`: training through registers and memory, more of it from where it ended, then with other deltas.

The script of each phase is recorded from the host driver's `Core.run`, the regions come from `ZerothOrderLayout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....golden.axi.regions import Bytes
from ....golden.cores.zeroth_order.registers import Command
from ....golden.cores.zotrain.registers import CORE
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.nn.arithmetic.random_parameters import random_parameters, random_samples
from ....golden.rng.perturbation import POSITIONS
from ....golden.zo.deltas import DELTA, PerturbationTable
from ....golden.zo.job import ZerothOrderJob
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.network_model import NetworkModel
from ....golden.zo.step_settings import StepSettings
from ...phase import Phase
from ..recorded_job import RecordedJob

RATE = 2e-3
"""Learning rate of a mean loss."""
BATCH = 4
SAMPLES = 10
WORDS_PER_STEP = 400
"""A step counts as so many words where the bench asks for a number of words."""


def scenario(spec: ZotrainSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make three phases: training from reset; more steps and an inference; other deltas, another eps, and an inference.

    Parameters
    ----------
    spec : ZotrainSpec
    rng : Generator
        Source of parameters, samples, labels, orders and deltas.
    words : int
        Size of a job: one step for each `WORDS_PER_STEP`.
    """
    return _Scenario(spec, rng, words).phases()


class _Scenario(RecordedJob):
    """A network with random parameters, random samples, and jobs with them."""

    def __init__(self, spec: ZotrainSpec, rng: np.random.Generator, words: int) -> None:
        self._spec, self._layout, self._rng = spec, spec.layout, rng
        self._steps = int(np.clip(words // WORDS_PER_STEP, 2, 16))
        mapping, network = spec.mapping, spec.described
        self._frozen = random_parameters(network, rng)
        self._inputs, self._x, self._labels = random_samples(network, spec.byte_inputs, SAMPLES, rng, spec.labels)
        self._position = int(rng.integers(min(spec.source.period, POSITIONS // 2)))
        self._work = mapping.forward.cycles
        beats = mapping.forward.frozen_beats + 2 * self._layout.delta_beats
        step = 2 * BATCH * (self._work + 300) + 20 * mapping.words + 2000
        super().__init__(
            CORE, patience=20 * (beats + self._steps * step), base=int(rng.integers(1 << spec.address - 17)) << 12
        )

    def phases(self) -> list[Phase]:
        """Place all regions, then run the three phases with golden and record their commands."""
        memory, layout = self.memory, self._layout
        first, second, third = (self._orders() for _ in range(3))
        (_, settings), period = self._rates(first), self._spec.source.period
        job = self._job(settings, self._position)
        memory.place(layout.parameters(self._frozen))
        memory.place(layout.samples(self._inputs))
        names = ("", "_again", "_other")
        after = (self._position + self._steps * job.layout.span) % period
        for name, orders, position in zip(names, (first, second, third), (self._position, after, 5), strict=True):
            memory.place(layout.order(orders, BATCH), f"order{name}")
            memory.place(layout.state(position), f"state{name}")
            memory.place(layout.records(self._steps, BATCH), f"records{name}")
            memory.place(layout.deltas(), f"deltas{name}")
        for name in ("logits", "logits_other"):
            memory.place(layout.logits(self._steps * BATCH), name)
        return [self._first(job, first), self._second(job, second), self._third(third)]

    def _first(self, job: ZerothOrderJob, orders: list[StepOrder]) -> Phase:
        """Load and train from reset."""
        addresses = self.memory.addresses
        self.host.expect(signature=self._spec.signature)
        self.core.read("signature")
        names = ("parameters", "samples", "order", "state", "records", "deltas", "logits")
        counts = {"sample_count": SAMPLES, "steps": self._steps, "batch": BATCH}
        self.run(
            Command.LOAD,
            **{name: addresses[name] for name in names},
            **counts,
            position=job.position,
            eps_shift=job.settings.eps_shift,
            shift=job.settings.shift,
            p1=1,
            p2=1,
            gap=job.layout.span - len(job.rows),
        )
        records = self._train(job, orders)
        steps = self.host.steps
        waiting = max(at for at, step in enumerate(steps) if step.kind == "until")
        self.run(Command.SAVE_DELTAS)
        written = {"records": records, "deltas": self._deltas(job)}
        # in the middle of a pass of the first steps
        return self.phase(written, self.memory.images, reset=True, midway=(waiting, self._work, 3 * self._work))

    def _second(self, job: ZerothOrderJob, orders: list[StepOrder]) -> Phase:
        """Go on from the position and the deltas that are there, then infer."""
        addresses = self.memory.addresses
        again = {name: addresses[f"{name}_again"] for name in ("order", "state", "records")}
        records = self._train(job, orders, **again, position=job.position)
        self.run(Command.SAVE_DELTAS, deltas=addresses["deltas_again"])
        logits = self._infer(job, orders)
        written = {"records_again": records, "deltas_again": self._deltas(job), "logits": logits}
        return self.phase(written, {})

    def _third(self, orders: list[StepOrder]) -> Phase:
        """Load other deltas, train from them with another eps, and infer."""
        addresses, layout = self.memory.addresses, self._layout
        job = self._job(replace(self._rates(orders)[1], eps_shift=7), 5)
        largest = DELTA.maximum >> 6
        job.total = self._rng.integers(-largest, largest, job.total.shape)
        start = layout.deltas(job.rows).image
        self.run(Command.LOAD_DELTAS, deltas=addresses["deltas_other"])
        other = {name: addresses[f"{name}_other"] for name in ("order", "state", "records")}
        records = self._train(job, orders, **other, position=5, eps_shift=7, shift=job.settings.shift)
        self.run(Command.SAVE_DELTAS)
        logits = self._infer(job, orders, logits=addresses["logits_other"])
        written = {
            "records_other": records,
            "deltas_other": self._deltas(job),
            "logits_other": logits,
        }
        return self.phase(written, {addresses["deltas_other"]: start})

    def _train(self, job: ZerothOrderJob, orders: Sequence[StepOrder], **settings: int) -> Bytes:
        """Train with golden and record the command; return the image of the records."""
        before = job.saturations, job.coefficients_clipped
        steps = [job.step(self._x[order.indices], order.labels, order.rate) for order in orders]
        found = [slope for step in steps for slope in step]
        counters = {
            "steps_done": len(orders),
            "saturations": job.saturations - before[0],
            "coefficients_clipped": job.coefficients_clipped - before[1],
        }
        self.run(Command.TRAIN, counters, **settings)
        return self._layout.records_image(found, BATCH)

    def _infer(self, job: ZerothOrderJob, orders: Sequence[StepOrder], **settings: int) -> Bytes:
        """Record an inference; return the image of its logits."""
        self.run(Command.INFER, {"saturations": None}, **settings)
        logits = job.logits(self._x[np.concatenate([order.indices for order in orders])])
        return self._layout.logits_image(logits)

    def _deltas(self, job: ZerothOrderJob) -> Bytes:
        """Image of a job's deltas."""
        return self._layout.deltas(job.rows).image

    def _job(self, settings: StepSettings, position: int) -> ZerothOrderJob:
        return ZerothOrderJob(NetworkModel(self._spec.mapping, self._frozen), self._spec.source, settings, position)

    def _rates(self, orders: Sequence[StepOrder]) -> tuple[list[int], StepSettings]:
        sizes, table = [len(order.indices) for order in orders], PerturbationTable(self._spec.source)
        return StepSettings(loss=self._spec.loss).with_rates([RATE] * len(orders), sizes, table)

    def _orders(self) -> list[StepOrder]:
        """Draw the samples of each step, the last step with fewer, and their rates."""
        sizes = [BATCH] * (self._steps - 1) + [BATCH - 1]
        drawn = [self._rng.integers(0, SAMPLES, size) for size in sizes]
        orders = [StepOrder(indices, self._labels[indices], rate=0) for indices in drawn]
        rates, _ = self._rates(orders)
        return [StepOrder(one.indices, one.labels, rate) for one, rate in zip(orders, rates, strict=True)]
