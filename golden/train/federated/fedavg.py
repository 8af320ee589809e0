"""First-order baseline: FedAvg with back-propagation, where clients upload all weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ...datasets.dataset import Samples
from ..metrics import refuse_diverged
from .configuration import FederatedConfig
from .federation import FederationResult, RoundMetrics
from .model import evaluated

_FLOAT = 4


def fedavg(
    module: nn.Sequential,
    config: FederatedConfig,
    owned: Sequence[Samples],
    test: Samples,
    progress: Callable[[RoundMetrics], None] | None = None,
) -> FederationResult:
    """Run all rounds with plain gradient descent, in float32 (McMahan et al., 2017).

    Clients and batches are the same as in `federate`; evaluations count for the second part.

    Parameters
    ----------
    module : nn.Sequential
        Pre-trained; has the server's weights at the end.
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
    loss, right = evaluated(module, test)
    outcome = FederationResult([RoundMetrics(loss, loss, right, (0, 0), 0)])
    seen = uploaded = 0
    for number in range(config.rounds):
        sampled = config.sampled(number)
        whole = sum(len(owned[client]) for client in sampled)
        mean = [torch.zeros_like(one) for one in module.parameters()]
        losses: list[float] = []
        for client in sampled:
            mine = copy.deepcopy(module)
            optimiser = torch.optim.SGD(mine.parameters(), lr=config.rate)
            inputs, labels = torch.from_numpy(owned[client].values()), torch.from_numpy(owned[client].labels)
            for indices in config.batches(number, client, len(labels)):
                chosen = torch.from_numpy(indices)
                one = functional.cross_entropy(mine(inputs[chosen]), labels[chosen])
                optimiser.zero_grad()
                torch.autograd.backward(one)
                optimiser.step()
                losses.append(float(one.detach()))
                seen += len(chosen)
            for total, parameter in zip(mean, mine.parameters(), strict=True):
                total.add_(parameter.detach(), alpha=len(owned[client]) / whole)
            uploaded += _FLOAT * sum(one.numel() for one in mean)
        with torch.no_grad():
            for parameter, total in zip(module.parameters(), mean, strict=True):
                parameter.copy_(total)
        loss, right = evaluated(module, test)
        refuse_diverged(loss, f"FedAvg diverged in round {number + 1}", f"lower its rate {config.rate}")
        outcome.curve.append(RoundMetrics(float(np.mean(losses)), loss, right, (0, seen), uploaded))
        if progress:
            progress(outcome.curve[-1])
    return outcome
