"""Zeroth-order fine-tuning of a network in integers and on the compiled core: `fabtune tune` with a PeZO method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.models.network import Network, deployed
from ....golden.rng.pezo import PezoSpec
from ....golden.train.conversion import Converter, core_inputs
from ....golden.train.tuned.network import TunedNetwork
from ....golden.train.zo.finetune import ZoResult, ZoSettings
from ....golden.train.zo.integer import IntegerTuning, check_settings, core_settings, source_of
from ....golden.train.zo.methods import METHODS
from ....golden.zo.step_settings import StepSettings
from ...compiled.playing import Played
from ...compiled.tuner import DEFAULT_CORE, HELD_OUT, Tuner, preset_of
from ..zeroth_order_job import TrainingJob, adopt_moves


class ZotrainTuner(Tuner):
    """Jobs of `zotrain`: all parameters by zeroth order in integers."""

    methods = tuple(METHODS)

    def spec_for(
        self, network: Network, settings: ZoSettings, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> ZotrainSpec:
        """Choose the core for a job; see `check_settings`, `ZotrainSpec` and `ZotrainSpec.check_split`."""
        check_settings(settings, samples)
        generator = source_of(settings, 1).spec
        assert isinstance(generator, PezoSpec), "generators by name are presets of pezo"
        spec = self.spec_with(network, byte_inputs, generator, preset)
        spec.check_split(settings.split, min(settings.schedule.batch, samples))
        return spec

    def spec_with(self, network: Network, byte_inputs: bool, generator: PezoSpec, preset: str) -> ZotrainSpec:
        """Make the spec of a preset for another network and generator.

        Raises
        ------
        UserError
            If there is no such preset, or it does not fit.
        """
        chosen = preset_of(ZotrainSpec, preset)
        chosen.pop("network", None)
        if len(deployed(network).stages) == 1:
            del chosen["cut_rows"]
        return ZotrainSpec.of(network, byte_inputs=byte_inputs, generator=generator, **chosen)

    def job(self, tuning: IntegerTuning, spec: ZotrainSpec) -> tuple[TrainingJob, NDArray[np.integer]]:
        """Make the job of the host driver, and held-out samples."""
        integers, held_out = tuning.integers, tuning.task.test[:HELD_OUT]
        inputs, settings = integers.inputs(tuning.task.tune), integers.job.settings
        job = TrainingJob(integers.model.frozen, inputs, integers.orders, settings, integers.job.position)
        return job, integers.inputs(held_out)

    def adopt(
        self, tuning: IntegerTuning, result: ZoResult, spec: ZotrainSpec, job: TrainingJob, played: Played
    ) -> bool:
        """Sum the core's moves."""
        return adopt_moves(tuning, result, played)

    def untuned(self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str) -> tuple[ZotrainSpec, TrainingJob]:
        """Load a network without adapters."""
        merged = tuned.merged()
        if merged.adapters:
            raise UserError("this core has no adapters: name a method of gradients")
        generator = source_of(core_settings(ZoSettings()), 1).spec
        assert isinstance(generator, PezoSpec), "the default method's generator is a preset of pezo"
        spec = self.spec_with(tuned.network, samples.inputs.dtype == np.uint8, generator, preset)
        frozen = Converter().stages(merged.parameters)
        return spec, TrainingJob(frozen, core_inputs(samples[:1]), [], StepSettings(loss=spec.loss))


TUNER = ZotrainTuner()
