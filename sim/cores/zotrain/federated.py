"""Clients of a federation that are simulated cores: `fabtune federate --core`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....boards.cores.zotrain.federated_client import CoreClient
from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....boards.host.driver import Core
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.datasets.dataset import Samples
from ....golden.models.network import Network
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.rng.pezo import PezoSpec
from ....golden.train.federated.configuration import FederatedConfig
from ....golden.train.zo.parameter_order import ArrayOrder
from ...compiled.comparison import simulated_core
from .tune import TUNER


class ZotrainFederation:
    """Clients on `zotrain`, see `compiled.tuner.Federation`."""

    def spec_for(self, network: Network, byte_inputs: bool, generator: PezoSpec, preset: str) -> ZotrainSpec:
        """Make the spec of a preset for a network and a generator."""
        return TUNER.spec_with(network, byte_inputs, generator, preset)

    def in_order(self, spec: ZotrainSpec, network: Network, config: FederatedConfig, stage: int) -> FederatedConfig:
        """Give a federation the order in which the core perturbs parameters."""
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
        """Make a simulated core for the samples of each client."""
        found = []
        for samples in owned:
            device = simulated_core(spec, None, seed, lambda _: None)
            trainer = ZerothOrderTrainer(Core.on(spec, device), spec)
            found.append(CoreClient(trainer, frozen, config, samples))
        return found


FEDERATION = ZotrainFederation()
