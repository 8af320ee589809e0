"""First-order baseline: FedAvg with back-propagation, where clients upload all trained weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...datasets.dataset import Samples
from ..metrics import refuse_diverged
from .configuration import FederatedConfig
from .federated_model import LabelledSamples
from .federation import FederationResult, RoundMetrics
from .model import evaluated

_FLOAT = 4


@dataclass(frozen=True)
class FirstOrder:
    """Settings for training a module by gradients.

    Parameters
    ----------
    loss : callable
        Mean loss of samples.
    evaluated : callable
        Mean cross entropy and accuracy on samples.
    optimiser : callable
        Makes the optimiser of a client's round from parameters and rate.
    """

    loss: Callable[[Any, Any], Tensor]
    evaluated: Callable[[Any, Any], tuple[float, float]]
    optimiser: Callable[[Iterable[Tensor], float], torch.optim.Optimizer]


def _network_loss(module: nn.Module, samples: Samples) -> Tensor:
    return functional.cross_entropy(module(torch.from_numpy(samples.values())), torch.from_numpy(samples.labels))


NETWORK = FirstOrder(_network_loss, evaluated, lambda parameters, rate: torch.optim.SGD(parameters, lr=rate))
"""Plain gradient descent on a network."""


def fedavg(
    module: nn.Module,
    config: FederatedConfig,
    owned: Sequence[LabelledSamples],
    test: LabelledSamples,
    progress: Callable[[RoundMetrics], None] | None = None,
    training: FirstOrder = NETWORK,
) -> FederationResult:
    """Run all rounds with gradients, in float32 (McMahan et al., 2017); clients upload the trained weights.

    Clients and batches are the same as in `federate`; evaluations count for the second part.

    Parameters
    ----------
    module : nn.Module
        Pre-trained; has the server's weights at the end. Parameters without `requires_grad` are frozen.
    config : FederatedConfig
        Uses rounds, clients, fraction, steps, batch, rate and seed.
    owned, test, progress
        See `federate`.

    Raises
    ------
    UserError
        If the loss diverges.
    """
    module.eval()
    loss, right = training.evaluated(module, test)
    outcome = FederationResult([RoundMetrics(loss, loss, right, (0, 0), 0)])
    seen = uploaded = 0
    for number in range(config.rounds):
        sampled = config.sampled(number)
        whole = sum(len(owned[client]) for client in sampled)
        mean = [torch.zeros_like(parameter) for parameter in _trained(module)]
        losses: list[float] = []
        for client in sampled:
            local = copy.deepcopy(module)
            optimiser = training.optimiser(_trained(local), config.rate)
            for indices in config.batches(number, client, len(owned[client])):
                batch_loss = training.loss(local, owned[client][indices])
                optimiser.zero_grad()
                torch.autograd.backward(batch_loss)
                optimiser.step()
                losses.append(float(batch_loss.detach()))
                seen += len(indices)
            for total, parameter in zip(mean, _trained(local), strict=True):
                total.add_(parameter.detach(), alpha=len(owned[client]) / whole)
            uploaded += _FLOAT * sum(total.numel() for total in mean)
        with torch.no_grad():
            for parameter, total in zip(_trained(module), mean, strict=True):
                parameter.copy_(total)
        loss, right = training.evaluated(module, test)
        refuse_diverged(loss, f"FedAvg diverged in round {number + 1}", f"lower its rate {config.rate}")
        outcome.curve.append(RoundMetrics(float(np.mean(losses)), loss, right, (0, seen), uploaded))
        if progress:
            progress(outcome.curve[-1])
    return outcome


def _trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]
