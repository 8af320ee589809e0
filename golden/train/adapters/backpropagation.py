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
    """

    def __init__(self, layer: nn.Module, a: Floats, outputs: int) -> None:
        super().__init__()
        self.layer = layer
        self.a = nn.Parameter(torch.tensor(a))
        self.b = nn.Parameter(torch.zeros(outputs, len(a)))

    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer plus that of the adapter."""
        y: Tensor = self.layer(x)
        adapter = functional.linear(functional.linear(x.flatten(1), self.a), self.b)
        return y + adapter.view_as(y)


class PropagateEngine:
    """Engine for methods without skipping adapters.

    Parameters
    ----------
    module : NetworkModule
        The pre-trained network, with batch norm; trained in place. Batch norm keeps the statistics of pre-training, as
        methods with a cache require, and its parameters are frozen.
    method : Method
    a : mapping of int to (array (rank, inputs), int)
        By stage: A of its adapter, and the number of outputs of the layer in parallel.
    rate : float
        Learning rate for the gradient of one sample: that for the mean of a batch, divided by the batch.
    """

    saturations = 0
    cache_bytes = 0

    def __init__(self, module: NetworkModule, method: Method, a: Mapping[int, tuple[Floats, int]], rate: float) -> None:
        if method.skips:
            raise UserError(f"{method.title} does not propagate: SkipEngine runs it")
        layers = [at for at, layer in enumerate(module) if isinstance(layer, nn.Conv2d | nn.Linear)]
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        for stage, at in enumerate(layers):
            layer = module[at]
            for name, parameter in layer.named_parameters():
                reach = method.weights if name == "weight" else method.biases
                parameter.requires_grad_(at in reach.of(layers))
            if stage in a:
                module[at] = LowRank(layer, *a[stage])
        self.module = module.eval()
        self._trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
        self._rate = rate
        self._optimiser = torch.optim.SGD(self._trained.values(), lr=rate)

    def batch(self, samples: Samples, indices: Integers, factor: float = 1.0) -> Floats:
        """Take a gradient step on a batch and return the logits before it, see `Engine.batch`."""
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
        """Logits of a batch that is not learnt from, see `Engine.validate`."""
        return self.logits(samples)

    def end_epoch(self, loss: float, validated: bool = False) -> float:
        """Return the loss as it is, see `Engine.end_epoch`."""
        return loss

    def logits(self, samples: Samples) -> Floats:
        """Logits of the network as tuned so far, (n, classes)."""
        with torch.no_grad():
            result: Floats = self.module(torch.from_numpy(samples.values())).numpy()
        return result

    def tensors(self) -> Tensors:
        """Trained parameters by PyTorch's names."""
        return {name: np.array(one.detach().numpy()) for name, one in self._trained.items()}

    def kept(self) -> list[NDArray[np.generic]]:
        """Copies of the trained parameters, see `Engine.kept`."""
        return list(self.tensors().values())

    def restore(self, kept: Sequence[NDArray[np.generic]]) -> None:
        """Take trained parameters that `kept` gave."""
        with torch.no_grad():
            for own, one in zip(self._trained.values(), kept, strict=True):
                own.copy_(torch.from_numpy(one))
