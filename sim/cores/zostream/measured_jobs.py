"""Jobs of `zostream` for measurements: toggles of training a random encoder, cycles of a step by operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ....boards.cores.zostream.job import StreamTrainer
from ....boards.host.driver import Core
from ....golden.axi.bus import BEAT
from ....golden.cores.zostream.random_network import RATE, random_images, random_sentences
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.forward import IntegerTransformer
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.machine.layout import StreamLayout, digest
from ....golden.stream.machine.program import program_of
from ....golden.stream.transformer_model import TransformerModel, padded
from ....golden.zo.coefficient import LARGEST_BATCH
from ....golden.zo.deltas import PerturbationTable
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.activity import ActivityJob, CoreActivity
from ...compiled.comparison import simulated_core
from ...compiled.playing import HostJob
from ...compiled.session import Dram
from ..zeroth_order_job import TrainingJob

BATCH, LONGEST = 4, 7
"""Default number of sentences of a step, and tokens of the longest sentence."""


class StreamActivity(CoreActivity[ZostreamSpec]):
    """Training steps on one batch of sentences."""

    steps: ClassVar[str] = "steps"

    def batches(self, spec: ZostreamSpec) -> tuple[int, int]:
        """Default and largest number of sentences of a step."""
        return BATCH, LARGEST_BATCH

    def baseline(self, spec: ZostreamSpec, job: ActivityJob) -> None:
        """No comparison: the core has no other generators."""

    def jobs(self, spec: ZostreamSpec, job: ActivityJob, batch: int) -> list[HostJob[Any]]:
        """Training steps."""
        rng, steps = np.random.default_rng(job.seed), job.steps
        images = random_images(spec, rng)
        sentences, labels = random_sentences(images, batch, min(LONGEST, spec.tokens), rng)
        rates, settings = StepSettings().with_rates([RATE] * steps, [batch] * steps, PerturbationTable(spec.generator))
        drawn = [rng.permutation(batch) for _ in range(steps)]
        orders = [StepOrder(indices, labels[indices], rate) for indices, rate in zip(drawn, rates, strict=True)]
        return [TrainingJob(images, sentences, orders, settings)]


ACTIVITY = StreamActivity()


@dataclass(frozen=True)
class OperationCycles:
    """Cycles of a command with one step.

    Parameters
    ----------
    cycles : int
    operations : tuple of int
        Cycles of each instruction of the program.
    """

    cycles: int
    operations: tuple[int, ...]

    @property
    def outside(self) -> int:
        """Cycles in which no instruction runs: perturbation, samples, losses and update."""
        return self.cycles - sum(self.operations)


def step_cycles(
    spec: ZostreamSpec,
    transformer: IntegerTransformer,
    lengths: tuple[int, ...],
    dram: Dram | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> OperationCycles:
    """Count the cycles of a step of a network with zero weights: all matrices are in NF4, with scales of 0.

    Parameters
    ----------
    spec : ZostreamSpec
    transformer : IntegerTransformer
        Shapes and formats, for example of `golden.stream.machine.cost_model.on_paper`. A network that the core cannot
        run is a `UserError`.
    lengths : tuple of int
        Tokens of each sentence.
    dram : Dram, optional
        Behaviour of the core's memory.
    stage : callable
        Called with each step's name at its start.
    """
    images = _empty(spec, transformer)
    spec.check(images)
    device = simulated_core(spec, dram, 0, stage)
    host = StreamTrainer(Core.on(spec, device), spec)
    stage("simulate a step")
    host.load(images)
    order = StepOrder(np.arange(len(lengths)), np.zeros(len(lengths), np.int64), rate=0)
    inputs = padded([np.zeros(length, np.int64) for length in lengths])
    finished = host.train(inputs, [order], StepSettings(), 0).finished
    return OperationCycles(finished.cycles, device.operations)


def _empty(spec: ZostreamSpec, transformer: IntegerTransformer) -> StreamImages:
    """Images of a network with a weight stream of zeros."""
    matrices = frozenset(name for name in transformer.network.parameter_shapes if name[1] == "weight")
    layout = StreamLayout(transformer, matrices, spec.size)
    body = np.zeros(layout.beats * BEAT, np.uint8)
    words = np.zeros((1, transformer.network.features), np.int64)
    model = TransformerModel(transformer, {}, words, times=spec.times, lanes=spec.lanes, columns=spec.columns)
    return StreamImages(model, program_of(layout, digest(body)), layout.with_header(body))
