"""Self-test of `zostream`: an encoder with its deltas, steps, inferences; a cut decoder; a perceptron with a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....golden.cores.zostream.golden_core import GoldenZostream
from ....golden.cores.zostream.random_network import NetworkKind, RandomJob, random_images
from ....golden.cores.zostream.registers import Command
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.zo.deltas import DELTA
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.split import WHOLE, Split
from ...selftest.job import SelfTest
from ...selftest.played import PlayedSelfTest

SAMPLES, BATCH, STEPS, TOKENS = 6, 3, 3, 5


def selftest(spec: ZostreamSpec, seed: int = 1) -> SelfTest:
    """Self-test of a core, with random networks and sentences."""
    rng = np.random.default_rng(seed)
    core = GoldenZostream(spec)
    script = PlayedSelfTest(spec, core)
    encoder = _Network(script, core, "encoder", rng)
    encoder.load()
    encoder.load_deltas(rng)
    encoder.save("save the same deltas")
    encoder.infer("infer with one order", 0, 1)
    encoder.train("train one step", 0, 1)
    encoder.save("save its deltas")
    encoder.train("train more steps", 1, STEPS)
    encoder.save("save the last deltas")
    encoder.infer("infer", 1, STEPS)
    decoder = _Network(script, core, "decoder", rng, Split(8, 1, 2), sensitive=5, cut=8)
    decoder.load()
    decoder.train("train some weights of the decoder", 0, STEPS)
    decoder.save("save the decoder's deltas")
    decoder.infer("infer with the decoder", 0, STEPS)
    perceptron = _Network(script, core, "perceptron", rng, first=3, cut=3)
    perceptron.load()
    perceptron.keep("keep what passes the cut of the perceptron")
    perceptron.train("train what is behind it", 0, STEPS)
    perceptron.save("save the perceptron's deltas")
    script.test.copies("load the encoder", "load deltas", "save the same deltas")
    return script.test


class _Network:
    """Network of the self-test, with regions and commands."""

    def __init__(
        self,
        script: PlayedSelfTest,
        core: GoldenZostream,
        kind: NetworkKind,
        rng: np.random.Generator,
        split: Split = WHOLE,
        **network: Any,
    ) -> None:
        spec = core.spec
        images = random_images(spec, rng, kind, **network)
        core.know(images)
        self._script, self._kind = script, kind
        self._own = RandomJob(spec, images, rng, SAMPLES, BATCH, STEPS, TOKENS, split=split)
        layout, period = self._own.layout, spec.generator.period
        self._at = {region.register: script.place(region, f"{kind}_{region.register}") for region in self._own.regions}
        self._orders = {
            (first, end): script.place(layout.order(self._own.orders[first:end], BATCH), f"{kind}_order_{first}_{end}")
            for first, end in ((0, 1), (1, STEPS), (0, STEPS))
        }
        self._positions = {first: first * self._own.job.layout.span % period for first in (0, 1)}
        self._states = {
            first: script.place(layout.state(position), f"{kind}_state_{first}")
            for first, position in self._positions.items()
        }
        self._records = script.place(layout.records(STEPS * split.slopes, BATCH), f"{kind}_records")
        self._logits = script.place(layout.logits(STEPS * BATCH), f"{kind}_logits")
        self._saved = script.place(layout.deltas(), f"{kind}_saved")

    def load(self) -> None:
        settings = {name: self._at[name] for name in ("program", "weights")}
        settings["program_beats"] = self._own.images.program.image_beats
        self._script.play(f"load the {self._kind}", Command.LOAD, settings)

    def load_deltas(self, rng: np.random.Generator) -> None:
        job, largest = self._own.job, DELTA.maximum >> 8
        job.total = rng.integers(-largest, largest, job.total.shape)
        place = self._script.place(self._own.layout.deltas(job.rows), f"{self._kind}_deltas")
        self._script.play("load deltas", Command.LOAD_DELTAS, {"deltas": place})

    def save(self, name: str) -> None:
        self._script.play(name, Command.SAVE_DELTAS, {"deltas": self._saved}, {"deltas": "deltas"})

    def infer(self, name: str, first: int, end: int) -> None:
        settings = self._settings(first, end) | {"logits": self._logits}
        self._script.play(name, Command.INFER, settings, {"logits": "logits"})

    def keep(self, name: str) -> None:
        """Cache the activations at the cut of all samples."""
        everyone = np.arange(SAMPLES).reshape(-1, BATCH)
        orders = [StepOrder(one, np.zeros_like(one), rate=0) for one in everyone]
        order = self._script.place(self._own.layout.order(orders, BATCH), f"{self._kind}_everyone")
        settings = {one: self._at[one] for one in ("weights", "index", "samples", "cache")}
        settings |= {"order": order} | self._own.counts(orders)
        self._script.play(name, Command.CACHE, settings, {"cache": "cache"})

    def train(self, name: str, first: int, end: int) -> None:
        settings = self._settings(first, end) | {"state": self._states[first], "records": self._records}
        settings |= self._own.training() | {"position": self._positions[first]}
        self._script.play(name, Command.TRAIN, settings, {"records": "records"}, trains=True)

    def _settings(self, first: int, end: int) -> dict[str, int]:
        """Settings of a job with the samples of steps `first` to `end`."""
        addresses = {name: self._at[name] for name in ("weights", "index", "samples", "cache") if name in self._at}
        orders = self._own.orders[first:end]
        return addresses | {"order": self._orders[first, end]} | self._own.counts(orders)
