"""Pre-training of a network in float32 with PyTorch, on the data before the domain shift; results are cached."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from ..cache import cached, digest_of, package_version, source_digest
from ..datasets.dataset import Samples
from ..errors import UserError
from ..fixed import Integers
from ..models.checkpoint import load_into, load_saved, save_state
from ..models.module import module_of
from ..models.network import Network
from ..transformer.blocks import Transformer
from .batches import batches
from .learning_rate import refuse_rate
from .metrics import accuracy, refuse_diverged

PretrainProgress = Callable[[float, float], None]
"""Called after each epoch with the mean loss and the fraction of samples classified correctly."""


@dataclass(frozen=True)
class Pretraining:
    """Settings of pre-training with plain gradient descent.

    `rate` is for the mean loss of a batch, `seed` for the initial weights and the sample order.

    Raises
    ------
    UserError
        If the rate is not finite and above 0.
    """

    epochs: int
    batch: int = 20
    rate: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_rate(self.rate, "pre-training rate")


_EPOCHS_AND_RATES = {
    "lenet5-mnist": (10, 0.1),  # InstantFT, section 5.1
    "lenet5-svhn": (10, 0.1),
    "fan": (100, 0.05),
    "har": (300, 0.05),
    "digits": (40, 0.1),
    "vit-digits": (20, 0.1),
    "mlp-20m": (1, 0.05),
}
_OTHER = (10, 0.05)


def pretraining_defaults(network: str, seed: int = 0) -> Pretraining:
    """Settings for a preset network, or for any other network; batches of 20."""
    epochs, rate = _EPOCHS_AND_RATES.get(network, _OTHER)
    return Pretraining(epochs, rate=rate, seed=seed)


def pretrain(
    network: Network | Transformer,
    samples: Samples,
    settings: Pretraining,
    progress: PretrainProgress | None = None,
    start: nn.Module | None = None,
) -> nn.Module:
    """Trained copy of a network's module, in evaluation mode.

    `start` is a user's or a transformer's module, trained from its own weights with its own dropout. The default is the
    described network with PyTorch's initial weights.

    Raises
    ------
    UserError
        If the loss diverges, or all parameters of `start` are frozen.
    """
    torch.manual_seed(settings.seed)
    module = _copy_of(start, network).train()
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise UserError(f"no parameter of {network.name} requires gradients: there is nothing to pre-train")
    values, labels = torch.from_numpy(samples.values()), torch.from_numpy(samples.labels)
    optimiser = torch.optim.SGD(module.parameters(), lr=settings.rate)
    normalised = isinstance(network, Network) and any(stage.batch_norm for stage in network.stages)
    rng = np.random.default_rng(settings.seed)
    for epoch in range(settings.epochs):
        total, correct = 0.0, 0
        for indices in batches(len(samples), settings.batch, rng):
            if normalised and len(indices) == 1:
                continue  # the variance of one sample is undefined
            logits = module(values[indices])
            loss = functional.cross_entropy(logits, labels[indices], reduction="sum")
            optimiser.zero_grad()
            torch.autograd.backward(loss / settings.batch)
            optimiser.step()
            total += float(loss.detach())
            correct += int((logits.detach().argmax(dim=1) == labels[indices]).sum())
        where = f"pre-training diverged in epoch {epoch + 1}"
        refuse_diverged(total / len(samples), where, f"lower the rate {settings.rate}")
        if progress:
            progress(total / len(samples), correct / len(samples))
    return module.eval()


def _copy_of(start: nn.Module | None, network: Network | Transformer) -> nn.Module:
    if start is not None:
        return copy.deepcopy(start)
    assert isinstance(network, Network), "a transformer's module has its initial weights"
    return module_of(network)


def pretrained(
    network: Network | Transformer,
    samples: Samples,
    settings: Pretraining,
    progress: PretrainProgress | None = None,
    start: nn.Module | None = None,
) -> tuple[nn.Module, Path]:
    """Pre-trained module in evaluation mode, and its file; cached for equal network, samples, settings and start.

    The file has the weights and the accuracy on the samples, see `accuracy_of`. Its name holds a digest of network,
    samples, settings, start, this module's source and PyTorch's version.
    """

    def make(path: Path) -> None:
        module = pretrain(network, samples, settings, progress, start)
        right = repr(accuracy(logits_of(module, samples), samples.labels))
        state = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
        save_state(path, state, {"accuracy": right}, force=True)

    code = (source_digest(Path(__file__)), package_version("torch"))
    start_parts: list[object] = []
    if start is not None:
        frozen = [name for name, tensor in start.named_parameters() if not tensor.requires_grad]
        start_parts = [
            start,
            frozen,
            *(part for name, tensor in start.state_dict().items() for part in (name, tensor.numpy().tobytes())),
        ]
    digest = digest_of(network, settings, *code, samples.inputs.tobytes(), samples.labels.tobytes(), *start_parts)
    name = re.sub(r"[^\w.-]", "_", Path(network.name).name)  # a user's network has the name of its file, with folders
    path = cached("pretrained", f"{name}-{digest}.safetensors", make)
    module = _copy_of(start, network)
    load_into(module, path)
    return module.eval(), path


def accuracy_of(path: Path) -> float:
    """Fraction of the pre-training samples that a network classifies correctly, from the file of `pretrained`."""
    return float(load_saved(path)[1]["accuracy"])


def logits_of(module: nn.Module, samples: Samples, at_once: int = 500) -> NDArray[np.float32]:
    """Logits of samples in float32, (n, classes), by a module in evaluation mode."""
    values = torch.from_numpy(samples.values())
    with torch.no_grad():
        return torch.cat([module(part) for part in torch.split(values, at_once)]).float().numpy()


def at_chance(right: float, labels: Integers) -> bool:
    """True if an accuracy is at most two standard deviations above that of always naming the most frequent class."""
    often = float(np.bincount(labels).max()) / len(labels)
    return bool(right <= often + 2 * np.sqrt(often * (1 - often) / len(labels)))
