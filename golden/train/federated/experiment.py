"""FedSPZO and its baselines from one start: the same model, clients and rounds."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from ...models.network import Network
from .client import FederatedClient
from .configuration import LARGEST_STEPS, FederatedConfig, FederatedRates
from .cost_model import cut_of, memory_bytes, part_flops, step_flops
from .fedavg import fedavg
from .federated_model import FederatedModel, LabelledSamples
from .federation import FederationResult, RoundMetrics, Transport, federate
from .model import SplitModel

BASELINE_QUERIES = 5
"""Perturbations per step of plain federated zeroth order."""

Figures = dict[str, Any]
"""Bytes, operations and losses of a federation by name, see `FederatedExperiment`."""
RoundProgress = Callable[[RoundMetrics], None]
"""Called after each round."""
Run = Callable[..., tuple[FederationResult, Figures]]
"""A federation ready to run; takes a `RoundProgress` as `progress`."""


@dataclass(frozen=True, kw_only=True)
class FederatedExperiment(ABC):
    """Common start of several federations; each method runs a federation on a copy of the model.

    A method returns the federation's result and its figures: ``upload_bytes`` of all clients,
    ``upload_bytes_per_client_round``, ``forward_flops`` of all clients, ``loss_before``, ``loss_after``,
    ``accuracy_before``, ``accuracy_after`` of held-out samples, ``rate`` and ``steps``.

    Parameters
    ----------
    owned : list of LabelledSamples
        Samples of each client.
    test : LabelledSamples
        Held out.
    config : FederatedConfig
        Configuration of FedSPZO.
    stage : int
        FedSPZO's cut of the model.
    cores : sequence of FederatedClient
        The first clients of FedSPZO, if they are cores.
    """

    owned: Sequence[LabelledSamples]
    test: LabelledSamples
    config: FederatedConfig
    stage: int
    cores: Sequence[FederatedClient] = ()

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the model."""

    @abstractmethod
    def flops(self, stage: int) -> tuple[int, int]:
        """Operations of one sample's forward pass through both parts; a multiply-accumulate counts as two."""

    @abstractmethod
    def model(self, config: FederatedConfig, stage: int) -> FederatedModel:
        """Copy of the start, cut at a stage."""

    @abstractmethod
    def facts(self, config: FederatedConfig, stage: int) -> Figures:
        """More figures of a federation by zeroth order."""

    @abstractmethod
    def baselines(self, rates: FederatedRates, transport: Transport | None) -> dict[str, Run]:
        """Baselines by name."""

    def runs(self, rates: FederatedRates, transport: Transport | None = None, alone: bool = False) -> dict[str, Run]:
        """FedSPZO and, unless `alone`, its baselines, by name."""
        return {"FedSPZO": partial(self.fedspzo, transport), **({} if alone else self.baselines(rates, transport))}

    def fedspzo(
        self, transport: Transport | None = None, progress: RoundProgress | None = None
    ) -> tuple[FederationResult, Figures]:
        return self.zeroth_order(self.config, self.stage, transport, progress, self.cores)

    def fedzo(
        self,
        rate: float,
        transport: Transport | None = None,
        first: int = 1,
        second: int = 1,
        progress: RoundProgress | None = None,
    ) -> tuple[FederationResult, Figures]:
        """Run federated zeroth order without a cut, with about FedSPZO's forward work; see `fedzo_config`."""
        return self.zeroth_order(self.fedzo_config(rate, first, second), 0, transport, progress)

    def fedzo_config(self, rate: float, first: int = 1, second: int = 1) -> FederatedConfig:
        """Configuration without a cut; steps for FedSPZO's work, up to the limit of a message."""
        config = replace(self.config, first=first, second=second, rate=rate, order=None)
        work = step_flops(self.flops(self.stage), self.config) * self.config.steps
        steps = round(work / step_flops(self.flops(0), config))
        return replace(config, steps=min(max(1, steps), LARGEST_STEPS))

    def zeroth_order(
        self,
        config: FederatedConfig,
        stage: int,
        transport: Transport | None,
        progress: RoundProgress | None,
        cores: Sequence[FederatedClient] = (),
    ) -> tuple[FederationResult, Figures]:
        result = federate(self.model(config, stage), self.owned, self.test, transport, progress, cores)
        return result, figures(result, config, self.flops(stage)) | self.facts(config, stage)


@dataclass(frozen=True, kw_only=True)
class NetworkExperiment(FederatedExperiment):
    """Federations on a network of layers, see `FederatedExperiment`; a stage is a layer with weights, see `cut_of`.

    Parameters
    ----------
    network : Network
        Without batch norm.
    module : nn.Sequential
        Pre-trained, batch norm folded.
    backward_flops : int
        Operations of one sample's backward pass through the whole network, for FedAvg's figures.
    """

    network: Network
    module: nn.Sequential
    backward_flops: int

    @property
    def name(self) -> str:
        return self.network.name

    def flops(self, stage: int) -> tuple[int, int]:
        return part_flops(self.network, stage)

    def model(self, config: FederatedConfig, stage: int) -> SplitModel:
        return SplitModel(copy.deepcopy(self.module), cut_of(self.network, stage), config)

    def facts(self, config: FederatedConfig, stage: int) -> Figures:
        """Peak memory of a client in bytes, and its excess over MeZO's in percent."""
        shape, cut = self.network.input_shape, cut_of(self.network, stage)
        memory = memory_bytes(self.module, cut, shape, config)
        mezo = memory_bytes(self.module, 0, shape, replace(config, first=1, second=1))
        return {"memory_bytes": memory, "memory_over_mezo_percent": round(100 * (memory / mezo - 1), 4)}

    def baselines(self, rates: FederatedRates, transport: Transport | None) -> dict[str, Run]:
        """Federated zeroth order with `BASELINE_QUERIES` perturbations, and FedAvg."""
        plain = partial(self.fedzo, rates.plain, transport, second=BASELINE_QUERIES)
        return {"FedZO": plain, "FedAvg": partial(self.fedavg, rates.fedavg)}

    def fedavg(self, rate: float, progress: RoundProgress | None = None) -> tuple[FederationResult, Figures]:
        """Run FedAvg with FedSPZO's steps; its figures also have ``backward_flops``."""
        config = replace(self.config, rate=rate)
        result = fedavg(copy.deepcopy(self.module), config, self.owned, self.test, progress)
        with_backward = figures(result, config, self.flops(0))
        with_backward["backward_flops"] = result.curve[-1].evaluations[1] * self.backward_flops
        return result, with_backward


def figures(result: FederationResult, config: FederatedConfig, flops: tuple[int, int]) -> Figures:
    """Bytes, operations and losses of a federation, from its result and the operations of both parts."""
    before, after = result.curve[0], result.curve[-1]
    return {
        "upload_bytes": after.upload_bytes,
        "upload_bytes_per_client_round": after.upload_bytes // (config.rounds * config.sampled_clients),
        "forward_flops": sum(samples * each for samples, each in zip(after.evaluations, flops, strict=True)),
        "loss_before": round(before.loss, 4),
        "loss_after": round(after.loss, 4),
        "accuracy_before": before.accuracy,
        "accuracy_after": after.accuracy,
        "rate": config.rate,
        "steps": config.steps,
    }


def work_curve(result: FederationResult, figures: Figures) -> list[tuple[float, float, float]]:
    """Forward operations in billions, held-out loss and accuracy in percent, before and after each round."""
    evaluations = [sum(metrics.evaluations) for metrics in result.curve]
    billions = figures["forward_flops"] / 1e9
    return [
        (billions * done / evaluations[-1], metrics.loss, 100 * metrics.accuracy)
        for done, metrics in zip(evaluations, result.curve, strict=True)
    ]
