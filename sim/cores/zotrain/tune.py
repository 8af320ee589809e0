"""Jobs of `fabtune tune` and clients of `fabtune federate` on `zotrain`: zeroth-order fine-tuning of networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ....boards.cores.zotrain.federated_client import CoreClient
from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....boards.host.driver import Core
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.datasets.dataset import Samples
from ....golden.errors import UserError
from ....golden.models.network import Network, deployed
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.rng.pezo import PezoSpec
from ....golden.train.conversion import Converter, core_inputs
from ....golden.train.federated.configuration import FederatedConfig
from ....golden.train.tuned.network import TunedNetwork
from ....golden.train.zo.finetune import ZoResult, ZoSettings
from ....golden.train.zo.integer import IntegerTuning, check_settings, core_settings, source_of
from ....golden.train.zo.methods import METHODS
from ....golden.train.zo.parameter_order import ArrayOrder
from ....golden.zo.step_settings import StepSettings
from ...compiled.comparison import simulated_core
from ...compiled.playing import Played
from ...compiled.tuner import DEFAULT_CORE, HELD_OUT, Tuner, preset_of
from ..zeroth_order_job import TrainingJob, adopt_moves


class ZotrainTuner(Tuner):
    """Jobs of `zotrain`: all parameters are tuned, by zeroth order in integers."""

    methods = tuple(METHODS)

    def spec_for(
        self, network: Network, settings: ZoSettings, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> ZotrainSpec:
        """Make the core's spec for a job; see `check_settings`, `ZotrainSpec` and `ZotrainSpec.check_split`."""
        check_settings(settings, samples)
        generator = source_of(settings, 1).spec
        assert isinstance(generator, PezoSpec), "generators by name are presets of pezo"
        spec = self.spec_with(network, byte_inputs, generator, preset)
        spec.check_split(settings.split, min(settings.schedule.batch, samples))
        return spec

    def spec_with(self, network: Network, byte_inputs: bool, generator: PezoSpec, preset: str) -> ZotrainSpec:
        """Make a preset's spec for another network and generator; an unsuitable pair is a `UserError`."""
        chosen = preset_of(ZotrainSpec, preset)
        chosen.pop("network", None)
        if len(deployed(network).stages) == 1:
            del chosen["cut_rows"]
        return ZotrainSpec.of(network, byte_inputs=byte_inputs, generator=generator, **chosen)

    def job(self, tuning: IntegerTuning, spec: ZotrainSpec) -> tuple[TrainingJob, NDArray[np.integer]]:
        integers, held_out = tuning.integers, tuning.task.test[:HELD_OUT]
        inputs, settings = integers.inputs(tuning.task.tune), integers.job.settings
        job = TrainingJob(integers.model.frozen, inputs, integers.orders, settings, integers.job.position)
        return job, integers.inputs(held_out)

    def adopt(
        self, tuning: IntegerTuning, result: ZoResult, spec: ZotrainSpec, job: TrainingJob, played: Played
    ) -> bool:
        return adopt_moves(tuning, result, played)

    def untuned(self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str) -> tuple[ZotrainSpec, TrainingJob]:
        merged = tuned.merged()
        if merged.adapters:
            raise UserError("this core has no adapters: name a method of gradients")
        generator = source_of(core_settings(ZoSettings()), 1).spec
        assert isinstance(generator, PezoSpec), "the default method's generator is a preset of pezo"
        spec = self.spec_with(tuned.network, samples.inputs.dtype == np.uint8, generator, preset)
        frozen = Converter().stages(merged.parameters)
        return spec, TrainingJob(frozen, core_inputs(samples[:1]), [], StepSettings(loss=spec.loss))


TUNER = ZotrainTuner()


class ZotrainFederation:
    """Clients on `zotrain`."""

    def spec_for(self, network: Network, byte_inputs: bool, generator: PezoSpec, preset: str) -> ZotrainSpec:
        return TUNER.spec_with(network, byte_inputs, generator, preset)

    def in_order(self, spec: ZotrainSpec, network: Network, config: FederatedConfig, stage: int) -> FederatedConfig:
        order = ArrayOrder.of(network, spec.lanes, spec.columns, stage % len(spec.described.stages))
        return replace(config, source=replace(config.source, lanes=spec.mapping.width), order=order)

    def clients(
        self,
        spec: ZotrainSpec,
        frozen: Sequence[StageIntegers],
        config: FederatedConfig,
        owned: Sequence[Samples],
        seed: int,
    ) -> list[CoreClient]:
        found = []
        for samples in owned:
            device = simulated_core(spec, None, seed, lambda _: None)
            trainer = ZerothOrderTrainer(Core.on(spec, device), spec)
            found.append(CoreClient(trainer, frozen, config, samples))
        return found


FEDERATION = ZotrainFederation()
