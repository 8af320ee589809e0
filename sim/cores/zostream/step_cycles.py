"""Clock cycles of a step by operation, measured on the compiled core; contents do not matter, so weights are zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....boards.cores.zostream.job import StreamTrainer
from ....boards.host.driver import Core
from ....golden.axi.bus import BEAT
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.forward import IntegerTransformer
from ....golden.stream.machine.images import StreamImages
from ....golden.stream.machine.layout import StreamLayout, digest
from ....golden.stream.machine.program import program_of
from ....golden.stream.transformer_model import TransformerModel, padded
from ....golden.zo.memory_layout import StepOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.comparison import simulated_core
from ...compiled.session import Dram


@dataclass(frozen=True)
class StepCycles:
    """Result of `step_cycles`.

    Parameters
    ----------
    cycles : int
        Cycles of the command of one step.
    operations : tuple of int
        Those of each instruction of the program; what is left is outside of all.
    """

    cycles: int
    operations: tuple[int, ...]

    @property
    def outside(self) -> int:
        """Cycles of perturbation, samples, losses and update."""
        return self.cycles - sum(self.operations)


def step_cycles(
    spec: ZostreamSpec,
    transformer: IntegerTransformer,
    lengths: tuple[int, ...],
    dram: Dram | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> StepCycles:
    """Measure a step of a network that needs no weights: all matrices are in NF4, with scales of 0.

    Parameters
    ----------
    spec : ZostreamSpec
    transformer : IntegerTransformer
        Shapes and formats, such as those of `golden.stream.machine.cost_model.on_paper`.
    lengths : tuple of int
        Tokens of each sentence of the step.
    dram : Dram, optional
        Behaviour of the core's memory.
    stage : callable
        Called with the name of each part of the work as it begins.

    Raises
    ------
    UserError
        If the core cannot run the network.
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
    return StepCycles(finished.cycles, device.operations)


def _empty(spec: ZostreamSpec, transformer: IntegerTransformer) -> StreamImages:
    """Images of a network whose stream is all zeros."""
    matrices = frozenset(name for name in transformer.network.parameter_shapes if name[1] == "weight")
    layout = StreamLayout(transformer, matrices, spec.size)
    body = np.zeros(layout.beats * BEAT, np.uint8)
    words = np.zeros((1, transformer.network.features), np.int64)
    model = TransformerModel(transformer, {}, words, times=spec.times, lanes=spec.lanes, columns=spec.columns)
    return StreamImages(model, program_of(layout, digest(body)), layout.with_header(body))
