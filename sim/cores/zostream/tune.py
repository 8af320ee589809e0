"""Zeroth-order fine-tuning of a transformer in integers and on the compiled core: `fabtune tune` on a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.fixed import Integers
from ....golden.rng.pezo import PezoSpec
from ....golden.train.zo.finetune import ZoResult, ZoSettings
from ....golden.train.zo.integer import source_of, step_settings
from ....golden.train.zo.transformer_tuning import TransformerTuning
from ....golden.zo.memory_layout import StepOrder
from ...compiled.comparison import Comparison, compare
from ...compiled.session import Dram
from ...compiled.tuner import DEFAULT_CORE, Stage, preset_of
from ..zeroth_order_job import TrainingJob
from .first_difference import first_difference

HELD_OUT = 8
"""Held-out samples whose logits are compared at the end: of a large network a pass takes seconds to minutes."""


class ZostreamTuner:
    """Jobs of `zostream`, see `compiled.tuner.TransformerTuner`."""

    methods = ("pezo-otf", "pezo-pool", "sparse-zo")

    def spec_for(self, settings: ZoSettings, preset: str = DEFAULT_CORE) -> ZostreamSpec:
        """Choose the core for a job; see `ZostreamSpec` and `ZostreamSpec.check_steps`."""
        chosen = preset_of(ZostreamSpec, preset)
        generator = source_of(settings, 1).spec
        assert isinstance(generator, PezoSpec), "generators by name are presets of pezo"
        spec = ZostreamSpec(generator=generator, **chosen)
        spec.check_steps(step_settings(settings))
        return spec

    def run(
        self,
        tuning: TransformerTuning,
        spec: ZostreamSpec,
        stage: Stage = lambda _: None,
        dram: Dram | None = None,
        seed: int = 0,
        **progress: Any,
    ) -> tuple[ZoResult, Comparison]:
        """Run a job in integers, then on the compiled core, and compare.

        Parameters
        ----------
        tuning, spec, stage, **progress
            See `compiled.tuner.TransformerTuner`; afterwards the tuning's deltas are the sum of the core's moves.
        dram : Dram, optional
            Behaviour of the core's memory.
        seed : int
            Seed of the memory's randomness.
        """
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
        held_out = tuning.test.inputs[short][:HELD_OUT]
        stage("tune in integers")
        start, result = tuning.job.position, tuning.run(**progress)
        job = TrainingJob(images, inputs, orders, tuning.job.settings, start)
        played, comparison = compare(spec, job, held_out, dram, seed, stage)
        if comparison.mismatches:
            stage("look for the first difference")
            place = first_difference(spec, job, comparison.golden, played)
            comparison = replace(comparison, difference=place or comparison.difference)
        moved = tuning.job.total
        tuning.replay(played.ran.slopes)
        if not np.array_equal(tuning.job.total, moved):  # a pass through all held-out samples
            result.curve[-1] = (len(job.steps), tuning.accuracy())
        result.tensors = dict(tuning.tensors())
        return result, comparison


def used(inputs: Integers, orders: Sequence[StepOrder]) -> tuple[Integers, list[StepOrder]]:
    """Leave out the samples that no step uses, for which the core may lack the room."""
    numbers = np.unique(np.concatenate([one.indices for one in orders]))
    return inputs[numbers], [replace(one, indices=np.searchsorted(numbers, one.indices)) for one in orders]


TRANSFORMER_TUNER = ZostreamTuner()
