"""Simulated clients of a federation on `zotrain`: `fabtune federate` with a core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....boards.cores.zotrain.federated_client import CoreClient
from ....boards.cores.zotrain.job import ZerothOrderTrainer
from ....boards.host.driver import Core
from ....golden.cores.zotrain.registers import CORE
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.datasets.dataset import Samples
from ....golden.models.network import Network
from ....golden.nn.arithmetic.forward import StageIntegers
from ....golden.rng.pezo import PezoSpec
from ....golden.train.federated.configuration import FederatedConfig
from ....golden.train.zo.array_order import ArrayOrder
from ...compiled.comparison import simulated_core
from .job import PORTS
from .tune import zotrain_preset


class ZotrainClients:
    """Clients that are cores, and the configuration of a federation in which they take part; see `CoreClients`."""

    def spec_for(self, network: Network, preset: str, byte_inputs: bool, generator: PezoSpec) -> ZotrainSpec:
        """Make the core of all clients."""
        return zotrain_preset(network, preset, byte_inputs, generator)

    def configured(self, spec: ZotrainSpec, config: FederatedConfig, network: Network, stage: int) -> FederatedConfig:
        """Configure the order in which the core perturbs the parameters, cut at a layer with weights."""
        order = ArrayOrder.of(network, spec.lanes, spec.columns, stage % len(spec.described.stages))
        return replace(config, source=replace(config.source, lanes=spec.mapping.width), order=order)

    def client(
        self,
        spec: ZotrainSpec,
        frozen: Sequence[StageIntegers],
        config: FederatedConfig,
        samples: Samples,
        seed: int,
    ) -> CoreClient:
        """Compile the core, and make a client of it."""
        device = simulated_core(spec, PORTS, None, seed, lambda _: None)
        trainer = ZerothOrderTrainer(Core(CORE, device, device, device.interrupt), spec)
        return CoreClient(trainer, frozen, config, samples)


CLIENTS = ZotrainClients()
