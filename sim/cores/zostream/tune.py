"""Zeroth-order fine-tuning of a transformer in integers and on the compiled core: `fabtune tune` on a transformer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.errors import UserError
from ....golden.rng.pezo import PezoSpec
from ....golden.train.zo.finetune import ZoResult, ZoSettings
from ....golden.train.zo.integer_tuning import source_of, step_settings
from ....golden.train.zo.transformer_tuning import TransformerTuning
from ...compiled.session import Dram
from ...compiled.tuner import DEFAULT_CORE, Stage
from ..zeroth_order_job import ZerothOrderComparison, compare_zeroth_order
from .first_difference import first_difference
from .job import StreamJob

HELD_OUT = 8
"""Held-out samples whose logits are compared at the end: each is a whole stream of weights."""


class ZostreamTuner:
    """Jobs of `zostream`, see `compiled.tuner.TransformerTuner`."""

    methods = ("pezo-otf", "pezo-pool", "sparse-zo")

    def spec_for(self, settings: ZoSettings, preset: str = DEFAULT_CORE) -> ZostreamSpec:
        """Choose the core for a job; see `ZostreamSpec` and `ZostreamSpec.check_steps`."""
        if preset not in ZostreamSpec.presets:
            raise UserError(f"there is no core {preset!r}; there are: {', '.join(ZostreamSpec.presets)}")
        generator = source_of(settings, 1).spec
        assert isinstance(generator, PezoSpec), "generators by name are presets of pezo"
        chosen: dict[str, Any] = ZostreamSpec.presets[preset]
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
    ) -> tuple[ZoResult, ZerothOrderComparison]:
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
        stage("tune in integers")
        start, result = tuning.job.position, tuning.run(**progress)
        job = StreamJob(images, tuning.tune.inputs, tuning.orders, tuning.job.settings, start)
        slopes, comparison = compare_zeroth_order(spec, job, tuning.test.inputs[:HELD_OUT], dram, seed, stage)
        if comparison.mismatches:
            stage("look for the first difference")
            comparison = replace(comparison, difference=first_difference(spec, job, slopes))
        moved = tuning.job.total
        tuning.replay(slopes)
        if not np.array_equal(tuning.job.total, moved):  # a pass through all held-out samples
            result.curve[-1] = (len(job.steps), tuning.accuracy())
        result.tensors = dict(tuning.tensors())
        return result, comparison


TRANSFORMER_TUNER = ZostreamTuner()
