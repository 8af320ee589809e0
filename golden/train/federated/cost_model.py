"""Cost model of a client's step: operations counted as in FedSPZO, and peak memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...errors import UserError
from ...models.layers import Shape
from ...models.module import NetworkModule
from ...models.network import Network
from ...models.stages import chain
from .configuration import FederatedConfig

_FLOAT = 4


def cut_of(network: Network, stage: int) -> int:
    """Number of layers before a stage, 0 for stage 0; stage -1 is the last.

    Raises
    ------
    UserError
        If the network does not have the stage, or a residual or a concatenation crosses the cut.
    """
    weighted = network.weighted
    if not -len(weighted) <= stage < len(weighted):
        raise UserError(f"stage = {stage}: {network.name} has {len(weighted)} layers with weights")
    # layers before the first stage have no parameters to perturb
    cut = weighted[stage] if stage % len(weighted) else 0
    if cut not in network.cuts:
        raise UserError(f"stage = {stage}: {network.name} is not cut there, as a residual or a concatenation passes by")
    return cut


def part_flops(network: Network, stage: int) -> tuple[int, int]:
    """Operations of one sample's forward pass through both parts; a multiply-accumulate counts as two."""
    each = [layer.forward_flops for layer in network.stages]
    cut = stage % len(each)
    return sum(each[:cut]), sum(each[cut:])


def saving(network: Network, stage: int, second: int) -> float:
    """Predicted ratio of forward work without a cut to forward work with a cut, at equal noise; `second` is P2.

    Steps along random directions add noise, which grows with the number of parameters per direction. With d1 and d2
    parameters in both parts, the noise is proportional to (d1 + d2 / P2) / P1, and the work is P1 (fw1 + P2 fw2). A cut
    is useful if most parameters but little work follow. If the second part has much of the gradient, a cut saves more
    than predicted, because the first part's projected gradients lack the second part's noise.
    """
    second_part = sum(layer.parameters for layer in network.stages[stage:])
    return saved((network.parameters - second_part, second_part), part_flops(network, stage), second)


def saved(parameters: tuple[int, int], work: tuple[int, int], second: int) -> float:
    """`saving` from tuned parameters and operations of both parts."""
    cut = (parameters[0] + parameters[1] / second) * (work[0] + second * work[1])
    return sum(parameters) * sum(work) / cut


def stage_of(network: Network, second: int) -> int:
    """Stage with the largest `saving`, among the network's possible cuts."""
    weighted = network.weighted
    stages = [stage for stage, number in enumerate(weighted) if stage and number in network.cuts]
    return max(stages, key=lambda stage: saving(network, stage, second), default=0)


def step_flops(flops: tuple[int, int], config: FederatedConfig) -> int:
    """Operations of a step per sample: 2 fw1 P1 + 2 fw2 P1 P2, with every pass through the second part.

    FedSPZO's equation 7 has 2 fw2 P2 as its second term, where P2 counts the whole step.
    """
    return 2 * config.first * (flops[0] + config.second * flops[1])


def memory_bytes(module: nn.Sequential, cut: int, shape: Shape, config: FederatedConfig) -> int:
    """Peak memory of a zeroth-order client in bytes: weights, activations and scalars, float32.

    The batch is always stored. While a layer runs, the output and all inputs of this and later layers are stored; views
    cost nothing. While the second part runs, the intermediate output of one perturbation sign is stored for the
    following perturbations. `cut` is the number of layers of the first part; MeZO is `cut` = 0 with P1 = P2 = 1.
    `shape` is that of a sample.
    """
    values = [torch.zeros(config.batch, *shape)]
    reads = module.reads if isinstance(module, NetworkModule) else chain(len(module))
    last = {source: number for number, sources in enumerate(reads) for source in sources}
    most = 0
    with torch.no_grad():
        for number, (layer, sources) in enumerate(zip(module, reads, strict=True)):
            values.append(layer(*(values[source + 1] for source in sources)))
            # inputs of this and later layers, the output, the batch, and in the second part its first input
            stored = [value for source, value in enumerate(values, start=-1) if last.get(source, number) >= number]
            most = max(most, _bytes(values[0], values[cut if number >= cut else 0], *stored))
    weights = _FLOAT * sum(parameter.numel() for parameter in module.parameters())
    losses = 2 * config.first * config.second * _FLOAT
    return weights + most + losses


def _bytes(*tensors: Tensor) -> int:
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
