"""Zeroth-order fine-tuning of a network in integers and on the compiled core: `fabtune tune` with a PeZO method."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....boards.host.driver import Core
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
from ...compiled.comparison import Comparison, compare, simulated_core
from ...compiled.session import Dram
from ...compiled.tuner import DEFAULT_CORE, HELD_OUT, Inference, Stage, preset_of
from ..zeroth_order_job import TrainingJob


class ZotrainTuner:
    """Jobs of `zotrain`, see `compiled.tuner.Tuner`: all parameters by zeroth order in integers."""

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

    def run(
        self,
        tuning: IntegerTuning,
        spec: ZotrainSpec,
        stage: Stage = lambda _: None,
        dram: Dram | None = None,
        seed: int = 0,
        **progress: Any,
    ) -> tuple[ZoResult, Comparison]:
        """Run a job in integers, then on the compiled core, and compare.

        Parameters
        ----------
        tuning, spec, stage, **progress
            See `compiled.tuner.Tuner`; afterwards the tuning's deltas are the sum of the core's moves.
        dram : Dram, optional
            Behaviour of the core's memory.
        seed : int
            Seed of the memory's randomness.
        """
        integers, start = tuning.integers, tuning.integers.job.position
        stage("tune in integers")
        result = tuning.run(**progress)
        inputs, frozen = integers.inputs(tuning.task.tune), integers.model.frozen
        job = TrainingJob(frozen, inputs, integers.orders, integers.job.settings, start)
        played, comparison = compare(spec, job, integers.inputs(tuning.task.test[:HELD_OUT]), dram, seed, stage)
        tuning.replay(played.ran.slopes)
        result.curve[-1] = (len(job.steps), tuning.accuracy())
        result.tensors = tuning.tensors()
        return result, comparison

    def infer(
        self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str, stage: Stage = lambda _: None
    ) -> Inference:
        """Run samples through a network without adapters, see `compiled.tuner.Tuner`."""
        merged = tuned.merged()
        if merged.adapters:
            raise UserError("this core has no adapters: name a method of gradients")
        byte_inputs = samples.inputs.dtype == np.uint8
        generator = source_of(core_settings(ZoSettings()), 1).spec
        assert isinstance(generator, PezoSpec), "the default method's generator is a preset of pezo"
        spec = self.spec_with(tuned.network, byte_inputs, generator, preset)
        device = simulated_core(spec, None, 0, stage)
        trainer = ZerothOrderTrainer(Core(spec.registers, device, device, device.interrupt), spec)
        stage("simulate the network")
        trainer.load(Converter().stages(merged.parameters))
        logits = trainer.logits(core_inputs(samples))
        return Inference(spec, logits, device.simulated)


TUNER = ZotrainTuner()
