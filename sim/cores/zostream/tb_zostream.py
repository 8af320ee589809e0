"""Bench of `zostream`: training through registers and memory, more of it, an inference; then another network.

The script of each phase is recorded from the host driver's `Core.run`, the regions come from `ZostreamLayout`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....golden.axi.regions import Bytes
from ....golden.cores.zostream.random_network import RandomJob, random_images
from ....golden.cores.zostream.registers import CORE, Command
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.rng.perturbation import POSITIONS
from ....golden.stream.machine.cost_model import StepCost
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.split import Split
from ...phase import Phase
from ..recorded_job import RecordedJob

BATCH, SAMPLES, LONGEST = 4, 6, 7
CUT = 8
SPLIT = Split(CUT, 1, 2)
"""Perturbations of the other network, which is cut."""
WORDS_PER_STEP = 400
"""A step counts as so many words where the bench asks for a number of words."""


def scenario(spec: ZostreamSpec, rng: np.random.Generator, words: int) -> list[Phase]:
    """Make three phases: training from reset; more steps and an inference; other deltas; another network.

    Parameters
    ----------
    spec : ZostreamSpec
    rng : Generator
        Source of networks, sentences, labels, orders and deltas.
    words : int
        Size of a job: one step for each `WORDS_PER_STEP`.
    """
    return _Scenario(spec, rng, words).phases()


class _Scenario(RecordedJob):
    """Two random networks, and jobs with them."""

    def __init__(self, spec: ZostreamSpec, rng: np.random.Generator, words: int) -> None:
        self._spec, self._steps = spec, int(np.clip(words // WORDS_PER_STEP, 2, 8))
        position = int(rng.integers(min(spec.generator.period, POSITIONS // 2)))
        encoder, decoder = (
            random_images(spec, rng, "encoder"),
            random_images(spec, rng, "decoder", sensitive=9, cut=CUT),
        )
        sizes = {"samples": SAMPLES, "batch": BATCH, "longest": min(LONGEST, spec.tokens)}
        self._jobs = {
            "": RandomJob(spec, encoder, rng, **sizes, steps=2 * self._steps, position=position),
            "_other": RandomJob(spec, decoder, rng, **sizes, steps=self._steps, eps_shift=9, scalars=True, split=SPLIT),
        }
        costs = (StepCost(job.images.model.transformer, (LONGEST,) * BATCH, spec.size) for job in self._jobs.values())
        work = sum(10 * cost.cycles + 40 * spec.times * spec.generator.width + 20_000 for cost in costs)
        base = int(rng.integers(1 << spec.address - 17)) << 12
        super().__init__(CORE, patience=round(4 * self._steps * work), base=base)

    def phases(self) -> list[Phase]:
        """Place all regions, then run the phases with golden and record their commands."""
        memory, steps = self.memory, self._steps
        for suffix, job in self._jobs.items():
            layout, span = job.layout, job.job.layout.span
            for region in job.regions:
                memory.place(region, f"{region.register}{suffix}")
            for number in range(len(job.orders) // steps):
                name, position = f"{suffix}{number or ''}", job.job.position + number * steps * span
                orders = job.orders[number * steps :][:steps]
                memory.place(layout.order(orders, BATCH), f"order{name}")
                memory.place(layout.state(position % self._spec.generator.period), f"state{name}")
                memory.place(layout.records(steps * job.job.settings.split.slopes, BATCH), f"records{name}")
                memory.place(layout.deltas(), f"deltas{name}")
                memory.place(layout.logits(steps * BATCH), f"logits{name}")
        return [self._first(), self._second(), self._third()]

    def _first(self) -> Phase:
        """Load and train from reset."""
        self.host.expect(signature=self._spec.signature)
        self.core.read("signature")
        job = self._jobs[""]
        self._load(job, "")
        written = self._train(job, job.orders[: self._steps], "", "")
        step = max(at for at, one in enumerate(self.host.steps) if one.kind == "until")
        written |= self._save(job, "")
        return self.phase(written, self.memory.images, reset=True, midway=(step, 1_000, 30_000))

    def _second(self) -> Phase:
        """Go on from the position and the deltas that are there, then infer."""
        job = self._jobs[""]
        orders = job.orders[self._steps :]
        written = self._train(job, orders, "1", "")
        written |= self._save(job, "1") | self._infer(job, orders, "1", "")
        return self.phase(written, {})

    def _third(self) -> Phase:
        """Load another network, which is cut, and deltas, train from them, and infer."""
        job, rng = self._jobs["_other"], np.random.default_rng(self._steps)
        self._load(job, "_other")
        job.job.total = rng.integers(-(1 << 24), 1 << 24, job.job.total.shape)
        address, start = self.memory.addresses["deltas_other"], job.deltas
        self.run(Command.LOAD_DELTAS, deltas=address)
        written = self._train(job, job.orders, "_other", "_other")
        written |= self._save(job, "_other") | self._infer(job, job.orders, "_other", "_other")
        return self.phase(written, {address: start})

    def _at(self, names: Sequence[str], suffix: str) -> dict[str, int]:
        """Addresses of regions with a suffix."""
        return {name: self.memory.addresses[f"{name}{suffix}"] for name in names}

    def _load(self, job: RandomJob, suffix: str) -> None:
        """Record the load of a network."""
        self.run(Command.LOAD, program_beats=job.images.program.image_beats, **self._at(("program", "weights"), suffix))

    def _train(self, job: RandomJob, orders: Sequence[StepOrder], own: str, network: str) -> dict[str, Bytes]:
        """Train with golden and record the command; return the image of the records."""
        settings = job.counts(orders) | job.training()
        records, counters, _ = job.train(orders)
        addresses = self._at(("order", "state", "records"), own) | self._at(("index", "samples"), network)
        addresses |= self._at(("cache",) if job.images.cut else (), network)
        self.run(Command.TRAIN, counters, **addresses, **settings)
        return {f"records{own}": records}

    def _save(self, job: RandomJob, own: str) -> dict[str, Bytes]:
        """Record that the deltas are saved; return their image."""
        self.run(Command.SAVE_DELTAS, **self._at(("deltas",), own))
        return {f"deltas{own}": job.deltas}

    def _infer(self, job: RandomJob, orders: Sequence[StepOrder], own: str, network: str) -> dict[str, Bytes]:
        """Record an inference; return the image of its logits."""
        addresses = self._at(("order", "logits"), own) | self._at(("index", "samples"), network)
        self.run(Command.INFER, {"saturations": None}, **addresses, **job.counts(orders))
        return {f"logits{own}": job.logits(orders)}
