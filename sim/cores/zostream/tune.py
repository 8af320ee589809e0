"""Jobs of `fabtune tune` on `zostream`: zeroth-order fine-tuning of transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.fixed import Integers
from ....golden.rng.pezo import PezoSpec
from ....golden.train.zo.finetune import ZoResult, ZoSettings
from ....golden.train.zo.integer import source_of, step_settings
from ....golden.train.zo.transformer_tuning import TransformerTuning
from ....golden.zo.memory_layout import StepOrder
from ...compiled.playing import Played
from ...compiled.tuner import DEFAULT_CORE, TransformerTuner, preset_of
from ..zeroth_order_job import TrainingJob, adopt_moves
from .first_difference import first_difference

HELD_OUT = 8
"""Number of held-out samples for the logits; few, as a pass of a large network takes seconds to minutes."""


class ZostreamTuner(TransformerTuner):
    """Jobs of `zostream`."""

    methods = ("pezo-otf", "pezo-pool", "sparse-zo")

    def spec_for(self, settings: ZoSettings, preset: str = DEFAULT_CORE) -> ZostreamSpec:
        """Spec of the core for a job; see `ZostreamSpec` and `ZostreamSpec.check_steps`."""
        chosen = preset_of(ZostreamSpec, preset)
        generator = source_of(settings, 1).spec
        assert isinstance(generator, PezoSpec), "generators by name are presets of pezo"
        spec = ZostreamSpec(generator=generator, **chosen)
        spec.check_steps(step_settings(settings))
        return spec

    def job(self, tuning: TransformerTuning, spec: ZostreamSpec) -> tuple[TrainingJob, Integers]:
        """The job, and held-out samples that fit the core."""
        if tuning.cached and tuning.cached.kind != "exact":
            raise UserError(
                f"--cache {tuning.cached.kind}: {spec.name} keeps what is below --from-layer as it is: exact"
            )
        images = tuning.images(spec.size)
        spec.check(images)
        inputs, orders = used(tuning.tune.inputs, tuning.orders)
        spec.check_lengths(images, tuning.model.lengths(inputs))
        short = np.array(tuning.model.lengths(tuning.test.inputs)) <= spec.longest(images)
        if not short.any():
            raise UserError(f"no held-out sample has {spec.longest(images)} tokens or fewer: the core lacks the room")
        job = TrainingJob(images, inputs, orders, tuning.job.settings, tuning.job.position)
        return job, tuning.test.inputs[short][:HELD_OUT]

    def adopt(
        self, tuning: TransformerTuning, result: ZoResult, spec: ZostreamSpec, job: TrainingJob, played: Played
    ) -> bool:
        return adopt_moves(tuning, result, played)

    def place(self, spec: ZostreamSpec, job: TrainingJob, golden: Played, played: Played) -> str | None:
        return first_difference(spec, job, golden, played)


def used(inputs: Integers, orders: Sequence[StepOrder]) -> tuple[Integers, list[StepOrder]]:
    """Only the samples that the steps use, as all might not fit, and the steps with renumbered indices."""
    numbers = np.unique(np.concatenate([order.indices for order in orders]))
    return inputs[numbers], [replace(order, indices=np.searchsorted(numbers, order.indices)) for order in orders]


TRANSFORMER_TUNER = ZostreamTuner()
