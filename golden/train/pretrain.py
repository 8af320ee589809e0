"""Pre-training: the world as it was before the drift. Float, with PyTorch; done once, then kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ..cache import cache_folder
from ..datasets.dataset import Samples
from ..errors import UserError
from ..models.checkpoint import load_into, save_state
from ..models.network import Network
from ..models.sequential import module_of

Progress = Callable[[float, float], None]
"""Told after each epoch the mean loss and the fraction of samples that were right."""


@dataclass(frozen=True)
class Pretraining:
    """How.

    Parameters
    ----------
    epochs, batch : int
    rate : float
        Learning rate of plain gradient descent on the mean of a batch, as in `tune.Settings`.
    seed : int
        Of the initial weights and the order of the samples.
    """

    epochs: int
    batch: int = 20
    rate: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.rate) and self.rate > 0):
            raise UserError(f"pre-training rate = {self.rate}: a learning rate is above 0")


def pretrain(network: Network, samples: Samples, how: Pretraining, progress: Progress | None = None) -> nn.Sequential:
    """Train a network from scratch.

    Raises
    ------
    UserError
        If the loss is no longer a number.
    """
    torch.manual_seed(how.seed)
    module = module_of(network).train()
    values, labels = torch.from_numpy(samples.values()), torch.from_numpy(samples.labels)
    optimiser = torch.optim.SGD(module.parameters(), lr=how.rate)
    normalised = any(stage.batch_norm for stage in network.stages)
    rng = np.random.default_rng(how.seed)
    for epoch in range(how.epochs):
        total, right = 0.0, 0
        for indices in batches(len(samples), how.batch, rng):
            if normalised and len(indices) == 1:
                continue  # one sample has no variance
            logits = module(values[indices])
            loss = functional.cross_entropy(logits, labels[indices], reduction="sum")
            optimiser.zero_grad()
            torch.autograd.backward(loss / how.batch)
            optimiser.step()
            total += float(loss.detach())
            right += int((logits.detach().argmax(dim=1) == labels[indices]).sum())
        if not np.isfinite(total):
            raise UserError(
                f"pre-training lost its way in epoch {epoch + 1}: the loss is {total}; lower the rate {how.rate}"
            )
        if progress:
            progress(total / len(samples), right / len(samples))
    return module.eval()


def pretrained(
    network: Network, samples: Samples, how: Pretraining, progress: Progress | None = None
) -> tuple[nn.Sequential, Path]:
    """The same, kept in the cache folder under a name that tells network, samples and settings; and that file."""
    digest = hashlib.sha256(repr((network, how)).encode())
    digest.update(samples.inputs.tobytes())
    digest.update(samples.labels.tobytes())
    path = cache_folder() / "pretrained" / f"{network.name}-{digest.hexdigest()[:16]}.safetensors"
    if path.exists():
        module = module_of(network)
        load_into(module, path)
        return module.eval(), path
    module = pretrain(network, samples, how, progress)
    save_state(path, {name: one.numpy() for name, one in module.state_dict().items()}, {}, force=True)
    return module, path


def batches(count: int, size: int, rng: np.random.Generator) -> list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """One epoch: all samples in random order, `size` at a time, the last batch with what is left."""
    order = rng.permutation(count)
    return [order[start : start + size] for start in range(0, count, size)]
