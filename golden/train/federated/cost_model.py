"""What a client's step costs: operations as FedSPZO counts them, and bytes that have to be there at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...errors import UserError
from ...models.network import Convolution, Linear, Network, Shape
from .configuration import FederatedConfig

_FLOAT = 4


def cut_of(network: Network, stage: int) -> int:
    """Layers before a stage; -1 is the last stage, the head, and with 0 all layers are in the second part.

    Raises
    ------
    UserError
        If there are not so many.
    """
    weighted = [at for at, layer in enumerate(network.layers) if isinstance(layer, Convolution | Linear)]
    if not -len(weighted) <= stage < len(weighted):
        raise UserError(f"stage = {stage}: {network.name} has {len(weighted)} layers with weights")
    # what stands before the first stage has no parameters, and nothing to perturb
    return weighted[stage] if stage % len(weighted) else 0


def part_flops(network: Network, stage: int) -> tuple[int, int]:
    """Operations of one sample's pass through both parts, a multiply-accumulate being two."""
    each = [one.forward_flops for one in network.stages]
    at = stage % len(each)
    return sum(each[:at]), sum(each[at:])


def saving(network: Network, stage: int, second: int) -> float:
    """How many times less forward work a cut should take than none, at equal noise.

    What a step adds along random directions is noise, the more the more parameters share a direction: with d1 and d2
    parameters in the two parts it grows with (d1 + d2 / P2) / P1, and the work is P1 (fw1 + P2 fw2). So a cut pays
    where most parameters and little work are behind it. Where the second part has much of the gradient it saves more:
    the first part's slopes are rid of that part's noise.

    Parameters
    ----------
    network : Network
    stage : int
    second : int
        P2.
    """
    first_work, second_work = part_flops(network, stage)
    behind = sum(one.parameters for one in network.stages[stage:])
    cut = (network.parameters - behind + behind / second) * (first_work + second * second_work)
    return network.parameters * (first_work + second_work) / cut


def stage_of(network: Network, second: int) -> int:
    """The stage at which a cut should save most."""
    return max(range(1, len(network.stages)), key=lambda stage: saving(network, stage, second), default=0)


def step_flops(flops: tuple[int, int], config: FederatedConfig) -> int:
    """Of a step and a sample: 2 fw1 P1 + 2 fw2 P1 P2, every pass through the second part counted.

    FedSPZO's equation 7 has 2 fw2 P2 as its second term, whose P2 is then of the whole step.
    """
    return 2 * config.first * (flops[0] + config.second * flops[1])


def memory_bytes(module: nn.Sequential, cut: int, shape: Shape, config: FederatedConfig) -> int:
    """Bytes of weights, activations and scalars that a zeroth-order client must hold at once, float32.

    The batch is always there, a layer's input and output while it runs; views cost nothing. While the second part runs,
    the intermediate output stays for the perturbations that follow; that of the other side is not computed before. MeZO
    is `cut` = 0 with P1 = P2 = 1.

    Parameters
    ----------
    module : nn.Sequential
    cut : int
        Layers of the first part.
    shape : tuple of int
        Of one sample.
    config : FederatedConfig
        Its batch, P1 and P2.
    """
    batch = kept = x = torch.zeros(config.batch, *shape)
    most = 0
    with torch.no_grad():
        for at, layer in enumerate(module):
            if at == cut:
                kept = x
            y = layer(x)
            most = max(most, _bytes(batch, kept, x, y))
            x = y
    weights = _FLOAT * sum(one.numel() for one in module.parameters())
    losses = 2 * config.first * config.second * _FLOAT
    return weights + most + losses


def _bytes(*tensors: Tensor) -> int:
    """Of tensors that may share their memory."""
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())
