"""Bound on the distance of PyTorch's float32 logits of a tuned network from golden's integers."""

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
from ...models.activations import Nonlinearity
from ...models.layers import AveragePool, Concat, Flatten, MaxPool, Weighted
from ...models.module import module_of
from .network import TunedNetwork

ROUNDING = 2.0 ** -(Q8_16.fraction + 1)
"""Largest error of one rounding to Q8.16."""
FLOAT = 2.0**-24
"""Largest relative error of one rounding to float32."""


def logit_bound(tuned: TunedNetwork, samples: Samples, at_once: int = 100) -> NDArray[np.float64]:
    """Largest difference of each logit of each sample, (n, classes), where golden saturates nothing.

    Parameters of integer runs are equal on both sides; only roundings differ. Golden rounds samples, stages, hidden
    values of adapters, and logits, each by half a last place of Q8.16. It rounds slopes and limits of activations too:
    an error of a slope grows with the input. PyTorch rounds each product and each sum to float32. The absolute values
    of all weights propagate these errors to the logits.
    """
    values = torch.from_numpy(samples.values()).double()
    return np.concatenate([_bound(tuned, part) for part in torch.split(values, at_once)])


def accuracy_bound(bound: NDArray[np.float64], logits: NDArray[np.floating]) -> float:
    """Largest difference of both accuracies: the fraction of samples whose two largest logits are too close.

    `bound` is from `logit_bound`, `logits` are golden's, both (n, classes).
    """
    ordered = np.sort(logits, axis=1)
    return float(np.mean(ordered[:, -1] - ordered[:, -2] <= 2 * bound.max(axis=1)))


@torch.no_grad()
def _bound(tuned: TunedNetwork, inputs: Tensor) -> NDArray[np.float64]:
    network = tuned.network
    layers = module_of(network).double()
    weighted = network.weighted
    for index, stage_parameters in zip(weighted, tuned.parameters, strict=True):
        layers[index].weight.copy_(torch.from_numpy(stage_parameters.weight))
        layers[index].bias.copy_(torch.from_numpy(stage_parameters.bias))
    values, errors = [inputs], [torch.full_like(inputs, ROUNDING)]
    for number, (layer, read) in enumerate(zip(network.layers, network.reads, strict=True)):
        x, e = [values[index + 1] for index in read], [errors[index + 1] for index in read]
        y = layers[number](*x)
        values.append(y)
        if isinstance(layer, Weighted):
            errors.append(_weighted(layers[number], x[0], e[0]) + ROUNDING)
        elif isinstance(layer, Nonlinearity):
            rounding_error = layer.roundings * ROUNDING + layer.float_roundings * FLOAT * y.abs()
            errors.append(layer.steepest * e[0] + layer.constants_error(x[0]) + rounding_error)
        elif isinstance(layer, AveragePool):
            errors.append(layers[number](e[0]) + prod(layer.size) * FLOAT * layers[number](x[0].abs()) + ROUNDING)
        elif isinstance(layer, MaxPool | Flatten):
            errors.append(layers[number](e[0]))
        elif isinstance(layer, Concat):
            errors.append(layers[number](*e))
        else:  # a sum
            errors.append(e[0] + e[1] + FLOAT * (x[0].abs() + x[1].abs()))
    bound = errors[-1] + (2 * ROUNDING if tuned.tuned_layer or tuned.adapters else 0)
    for adapter in tuned.adapters:
        source = network.reads[weighted[adapter.stage]][0] + 1
        a, b = (torch.from_numpy(matrix) for matrix in (adapter.a, adapter.b))
        inputs, error = values[source].flatten(1).abs(), errors[source].flatten(1)
        hidden = (error + (a.shape[1] + 2) * FLOAT * inputs) @ a.abs().T + ROUNDING
        bound = bound + (hidden + (len(a) + 2) * FLOAT * (inputs @ a.abs().T)) @ b.abs().T
    return (bound + 4 * FLOAT * values[-1].abs()).numpy()


def _weighted(layer: Any, x: Tensor, e: Tensor) -> Tensor:
    """Error of a layer's outputs from the errors of its inputs."""
    absolute = copy.deepcopy(layer)
    absolute.weight.abs_()
    absolute.bias.abs_()
    # a few more roundings than terms: unfolded batch norm rounds too
    roundings = prod(absolute.weight.shape[1:]) + 8
    largest = absolute(x.abs())
    absolute.bias.zero_()
    error: Tensor = absolute(e) + roundings * FLOAT * largest
    return error
