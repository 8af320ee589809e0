"""Objective of zeroth-order fine-tuning: a pre-trained network on a drifted task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...datasets.dataset import Samples, Task
from ...fixed import Integers
from ..device import default_device

_SCORED = 256
"""Largest number of samples whose gradients score the sensitivity of weights."""


class NetworkObjective:
    """A pre-trained network on a task; implements `zo.finetune.Objective`.

    The module is set to evaluation mode (no dropout, fixed batch norm) and moved to `default_device`.
    """

    def __init__(self, module: nn.Module, task: Task) -> None:
        self.module = module.eval().to(default_device())
        self.task = task
        self._inputs, self._labels = self._tensors(task.tune)

    @property
    def samples(self) -> int:
        return len(self.task.tune)

    def closure_of(self, indices: Integers) -> Callable[[], Tensor]:
        chosen = torch.from_numpy(indices).to(self._labels.device)
        inputs, labels = self._inputs[chosen], self._labels[chosen]
        return lambda: functional.cross_entropy(self.module(inputs), labels)

    @torch.no_grad()
    def accuracy(self, at_once: int = 500) -> float:
        return self._held_out(lambda logits, labels: (logits.argmax(1) == labels).sum(), at_once)

    @torch.no_grad()
    def held_out_loss(self, at_once: int = 500) -> float:
        return self._held_out(partial(functional.cross_entropy, reduction="sum"), at_once)

    def _held_out(self, total: Callable[[Tensor, Tensor], Tensor], at_once: int) -> float:
        """Mean over the held-out samples of a quantity, `total` of logits and labels."""
        inputs, labels = self._tensors(self.task.test)
        pairs = zip(torch.split(inputs, at_once), torch.split(labels, at_once), strict=True)
        return float(sum(total(self.module(samples), of_samples) for samples, of_samples in pairs)) / len(labels)

    def losses(self, kind: Literal["generic", "task"]) -> list[Callable[[], Tensor]]:
        """Closures of the losses of single samples: of pre-training ("generic") or tuning ("task"), at most 256."""
        inputs, labels = self._tensors((self.task.pretrain if kind == "generic" else self.task.tune)[:_SCORED])

        def loss(sample: int) -> Tensor:
            return functional.cross_entropy(self.module(inputs[sample : sample + 1]), labels[sample : sample + 1])

        return [partial(loss, sample) for sample in range(len(labels))]

    def _tensors(self, samples: Samples) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(samples.values()).to(default_device()), torch.from_numpy(samples.labels).to(
            default_device()
        )
