"""Bound on how far PyTorch's float32 logits of a tuned network are from golden's integers."""

from __future__ import annotations

import copy
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...datasets.dataset import Samples
from ...fixed import Q8_16
from ...models.layers import AveragePool, Concat, Flatten, MaxPool, Relu, Weighted
from ...models.module import module_of
from .network import TunedNetwork

ROUNDING = 2.0 ** -(Q8_16.fraction + 1)
"""Largest error of one rounding to Q8.16."""
FLOAT = 2.0**-24
"""Largest relative error of one rounding to float32."""


def logit_bound(tuned: TunedNetwork, samples: Samples, at_once: int = 100) -> NDArray[np.float64]:
    """Largest difference of each logit of each sample, (n, classes), where golden saturates nothing.

    Parameters of integer runs are equal on both sides. What differs are roundings. Golden's are of samples, of each
    stage, of each adapter's hidden values and of the logits: half a last place of Q8.16 each. PyTorch's are of each
    product and each sum, in float32. They are carried on through the absolute values of all weights.
    """
    values = torch.from_numpy(samples.values()).double()
    return np.concatenate([_bound(tuned, part) for part in torch.split(values, at_once)])


def accuracy_bound(bound: NDArray[np.float64], logits: NDArray[np.floating]) -> float:
    """Largest difference of both accuracies: the fraction of samples whose two largest logits are that close.

    Parameters
    ----------
    bound : array, (n, classes)
        From `logit_bound`.
    logits : array, (n, classes)
        Golden's.
    """
    ordered = np.sort(logits, axis=1)
    return float(np.mean(ordered[:, -1] - ordered[:, -2] <= 2 * bound.max(axis=1)))


@torch.no_grad()
def _bound(tuned: TunedNetwork, inputs: Tensor) -> NDArray[np.float64]:
    network = tuned.network
    layers = module_of(network).double()
    weighted = [at for at, layer in enumerate(network.layers) if isinstance(layer, Weighted)]
    for at, one in zip(weighted, tuned.parameters, strict=True):
        layers[at].weight.copy_(torch.from_numpy(one.weight))
        layers[at].bias.copy_(torch.from_numpy(one.bias))
    values, errors = [inputs], [torch.full_like(inputs, ROUNDING)]
    for number, (layer, read) in enumerate(zip(network.layers, network.reads, strict=True)):
        x, e = [values[at + 1] for at in read], [errors[at + 1] for at in read]
        y = layers[number](*x)
        values.append(y)
        if isinstance(layer, Weighted):
            errors.append(_weighted(layers[number], x[0], e[0]) + ROUNDING)
        elif isinstance(layer, Relu):
            errors.append(e[0] + (ROUNDING if layer.slope else 0))
        elif isinstance(layer, AveragePool):
            errors.append(layers[number](e[0]) + prod(layer.size) * FLOAT * layers[number](x[0].abs()) + ROUNDING)
        elif isinstance(layer, MaxPool | Flatten):
            errors.append(layers[number](e[0]))
        elif isinstance(layer, Concat):
            errors.append(layers[number](*e))
        else:  # a sum
            errors.append(e[0] + e[1] + FLOAT * (x[0].abs() + x[1].abs()))
    found = errors[-1] + (2 * ROUNDING if tuned.tuned_layer or tuned.adapters else 0)
    for adapter in tuned.adapters:
        source = network.reads[weighted[adapter.stage]][0] + 1
        a, b = (torch.from_numpy(one) for one in (adapter.a, adapter.b))
        inputs, error = values[source].flatten(1).abs(), errors[source].flatten(1)
        hidden = (error + (a.shape[1] + 2) * FLOAT * inputs) @ a.abs().T + ROUNDING
        found = found + (hidden + (len(a) + 2) * FLOAT * (inputs @ a.abs().T)) @ b.abs().T
    return (found + 4 * FLOAT * values[-1].abs()).numpy()


def _weighted(layer: Any, x: Tensor, e: Tensor) -> Tensor:
    """Error of what a layer gives, of inputs with errors."""
    own = copy.deepcopy(layer)
    own.weight.abs_()
    own.bias.abs_()
    # a few more roundings than terms: batch norm that is not folded has its own
    roundings = prod(own.weight.shape[1:]) + 8
    largest = own(x.abs())
    own.bias.zero_()
    found: Tensor = own(e) + roundings * FLOAT * largest
    return found
