"""Sweep of `zostream`: cycles and memory of a step, from a transformer's shapes; nothing is trained."""

from __future__ import annotations

from typing import ClassVar

from ....golden.axi.bus import BEAT
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.settings import build
from ....golden.stream.machine.cost_model import StepCost
from ....golden.stream.memory.samples import token_beats
from ...sweep.core_sweep import CoreSweep
from ...sweep.design import Design, ShapesWorkload, texts_of
from ...sweep.space import Point, Space


class ZostreamSweep(CoreSweep[ZostreamSpec, StepCost]):
    """Designs of points of `zostream`, for any transformer that fits."""

    spec = ZostreamSpec
    training: ClassVar[dict[str, type]] = {"network": str, "model": str, "sentences": int, "tokens": int}
    not_swept: ClassVar[dict[str, str]] = {}

    def design(self, space: Space, point: Point, workload: ShapesWorkload) -> Design:
        """A point's core; refuses a core too small for the transformer or its sentences."""
        texts = texts_of(point.settings)
        spec = build(ZostreamSpec, texts, space.preset)
        assert isinstance(spec, ZostreamSpec)
        cost = StepCost(workload.transformer, workload.lengths, spec.size)
        _, program = spec.planned(workload.transformer)
        name, longest = workload.transformer.network.name, max(workload.lengths)
        if longest > (most := program.capacity // 2):
            raise UserError(f"a sentence of {longest} tokens: the core has room for {most} of {name}")
        return Design(spec, texts, cost, spec.lanes, spec.columns)

    def cycles(self, spec: ZostreamSpec, training: StepCost, samples: int) -> int:
        """Cycles of a step by the cost model."""
        return round(training.cycles)

    def dram_bytes(self, spec: ZostreamSpec, training: StepCost, samples: int) -> int:
        """Sum of the bytes of program, stream, tables, index, samples, deltas, state, logits, schedules and records."""
        stream, program = spec.planned(training.transformer)
        layout, rows = spec.layout(program), token_beats(training.transformer.network.features)
        beats = program.image_beats + stream.beats + layout.delta_beats + layout.state_beats
        beats += -(-4 * samples // BEAT) + samples + rows * sum(training.lengths) + samples * layout.logit_beats
        return BEAT * (beats + layout.step_beats(samples) + layout.record_beats(samples))


SWEEP = ZostreamSweep()
