"""FedSPZO, plain federated zeroth order and FedAvg from one start: the same model, clients and rounds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ...datasets.dataset import Samples
from ...models.network import Network
from .client import FederatedClient
from .configuration import LARGEST_STEPS, FederatedConfig
from .cost_model import cut_of, memory_bytes, part_flops, step_flops
from .fedavg import fedavg
from .federation import FederationResult, RoundMetrics, federate
from .transport import Transport

BASELINE_QUERIES = 5
"""Perturbations per step of plain federated zeroth order."""

Figures = dict[str, Any]
"""Bytes, operations and losses of a federation by name, see `FederatedExperiment`."""
RoundProgress = Callable[[RoundMetrics], None]
"""Called after each round."""


@dataclass(frozen=True)
class FederatedExperiment:
    """Common start of several federations; each method runs one of them on a copy of the model.

    A method returns the federation's result and its figures: ``upload_bytes`` of all clients,
    ``upload_bytes_per_client_round``, ``forward_flops`` of all clients, ``loss_before``, ``loss_after``,
    ``accuracy_before``, ``accuracy_after`` of held-out samples, ``rate`` and ``steps``.

    Parameters
    ----------
    network : Network
        Without batch norm.
    module : nn.Sequential
        Pre-trained, batch norm folded.
    owned : list of Samples
        Samples of each client.
    test : Samples
        Held out.
    config : FederatedConfig
        Configuration of FedSPZO.
    stage : int
        Layer with weights at which FedSPZO cuts the model, see `cut_of`.
    backward_flops : int
        Operations of one sample's backward pass through the whole network, for FedAvg's figures.
    cores : sequence of FederatedClient
        The first clients of FedSPZO, where they are cores.
    """

    network: Network
    module: nn.Sequential
    owned: list[Samples]
    test: Samples
    config: FederatedConfig
    stage: int
    backward_flops: int
    cores: Sequence[FederatedClient] = ()

    def fedspzo(
        self, transport: Transport | None = None, progress: RoundProgress | None = None
    ) -> tuple[FederationResult, Figures]:
        """Run FedSPZO."""
        return self._zeroth_order(self.config, self.stage, transport, progress, self.cores)

    def fedzo(
        self, rate: float, transport: Transport | None = None, progress: RoundProgress | None = None
    ) -> tuple[FederationResult, Figures]:
        """Run plain federated zeroth order with about as much forward work as FedSPZO takes; see `fedzo_config`."""
        return self._zeroth_order(self.fedzo_config(rate), 0, transport, progress)

    def fedzo_config(self, rate: float) -> FederatedConfig:
        """Configure plain federated zeroth order: steps for FedSPZO's forward work, as far as a message has room."""
        config = replace(self.config, first=1, second=BASELINE_QUERIES, rate=rate, order=None)
        work = step_flops(part_flops(self.network, self.stage), self.config) * config.steps
        steps = round(work / step_flops(part_flops(self.network, 0), config))
        return replace(config, steps=min(max(1, steps), LARGEST_STEPS))

    def fedavg(self, rate: float, progress: RoundProgress | None = None) -> tuple[FederationResult, Figures]:
        """Run FedAvg with FedSPZO's steps; its figures also have ``backward_flops``."""
        config = replace(self.config, rate=rate)
        result = fedavg(copy.deepcopy(self.module), config, self.owned, self.test, progress)
        figures = _figures(result, config, part_flops(self.network, 0))
        figures["backward_flops"] = result.curve[-1].evaluations[1] * self.backward_flops
        return result, figures

    def _zeroth_order(
        self,
        config: FederatedConfig,
        stage: int,
        transport: Transport | None,
        progress: RoundProgress | None,
        cores: Sequence[FederatedClient] = (),
    ) -> tuple[FederationResult, Figures]:
        module, shape = copy.deepcopy(self.module), self.network.input_shape
        cut = cut_of(self.network, stage)
        result = federate(module, cut, config, self.owned, self.test, transport, progress, cores)
        memory = memory_bytes(module, cut, shape, config)
        mezo = memory_bytes(module, 0, shape, replace(config, first=1, second=1))
        figures = _figures(result, config, part_flops(self.network, stage))
        figures["memory_bytes"] = memory
        figures["memory_over_mezo_percent"] = round(100 * (memory / mezo - 1), 4)
        return result, figures


def _figures(result: FederationResult, config: FederatedConfig, flops: tuple[int, int]) -> Figures:
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
    """Tabulate forward operations in billions, held-out loss and percent right, before and after each round."""
    evaluations = [sum(one.evaluations) for one in result.curve]
    billions = figures["forward_flops"] / 1e9
    return [
        (billions * done / evaluations[-1], one.loss, 100 * one.accuracy)
        for done, one in zip(evaluations, result.curve, strict=True)
    ]
