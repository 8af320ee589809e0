"""Float engine with PyTorch's gradients, for methods that run the network forward or backward in every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...datasets.dataset import Samples
from ...errors import UserError
from ...fixed import Floats, Integers
from ...models.module import NetworkModule
from .engine import Tensors
from .methods import Method


class LowRank(nn.Module):
    """Layer with a parallel adapter on flattened inputs and outputs: y = layer(x) + B A vec(x).

    Parameters
    ----------
    layer : Conv2d or Linear
    a : array, (rank, inputs)
    outputs : int
        Output values of the layer for one sample.
    fixed : bool
        A is not trained.
    """

    def __init__(self, layer: nn.Module, a: Floats, outputs: int, fixed: bool) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.tensor(a), requires_grad=not fixed)
        self.b = nn.Parameter(torch.zeros(outputs, len(a)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        adapter = functional.linear(functional.linear(x.flatten(1), self.a), self.b)
        return y + adapter.view_as(y)


class PropagateEngine:
    """Engine for methods without skipping adapters.

    Parameters
    ----------
    module : NetworkModule
        Pre-trained network with batch norm, trained in place. Batch norm keeps the statistics of pre-training, as
        methods with a cache require; its parameters are frozen.
    a : mapping of int to (array (rank, inputs), int)
        A of each stage's adapter, and the number of outputs of the parallel layer.
    rate : float
        Learning rate for the gradient of one sample: the rate for a batch's mean, divided by the batch.

    Raises
    ------
    UserError
        If the adapters of the method skip to the logits.
    """

    saturations = 0
    cache_bytes = 0

    def __init__(self, module: NetworkModule, method: Method, a: Mapping[int, tuple[Floats, int]], rate: float) -> None:
        if method.skips:
            raise UserError(f"{method.title} does not propagate: SkipEngine runs it")
        layers = [index for index, layer in enumerate(module) if isinstance(layer, nn.Conv2d | nn.Linear)]
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        for stage, index in enumerate(layers):
            layer = module[index]
            for name, parameter in layer.named_parameters():
                reach = method.weights if name == "weight" else method.biases
                parameter.requires_grad_(index in reach.of(layers))
            if stage in a:
                module[index] = LowRank(layer, *a[stage], fixed=method.fixed_a)
        self.module = module.eval()
        tensors = dict(module.named_parameters())
        self._saved = {
            name: values for name, values in tensors.items() if values.requires_grad or not method.trains(name)
        }
        self._rate = rate
        self._optimiser = torch.optim.SGD([values for values in tensors.values() if values.requires_grad], lr=rate)

    def batch(self, samples: Samples, indices: Integers, factor: float = 1.0) -> Floats:
        logits: Tensor = self.module(torch.from_numpy(samples.values()))
        loss = functional.cross_entropy(logits, torch.from_numpy(samples.labels), reduction="sum")
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate * factor
        self._optimiser.step()
        result: Floats = logits.detach().numpy()
        return result

    def validate(self, samples: Samples, indices: Integers) -> Floats:
        return self.logits(samples)

    def end_epoch(self, loss: float, validated: bool = False) -> float:
        return loss

    def logits(self, samples: Samples) -> Floats:
        with torch.no_grad():
            result: Floats = self.module(torch.from_numpy(samples.values())).numpy()
        return result

    def tensors(self) -> Tensors:
        return {name: np.array(parameter.detach().numpy()) for name, parameter in self._saved.items()}

    def kept(self) -> list[NDArray[np.generic]]:
        return list(self.tensors().values())

    def restore(self, kept: Sequence[NDArray[np.generic]]) -> None:
        with torch.no_grad():
            for parameter, copy in zip(self._saved.values(), kept, strict=True):
                parameter.copy_(torch.from_numpy(copy))
