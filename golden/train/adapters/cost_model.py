"""Cost model of a method on a network, counted as in InstantFT (table 1).

Operations are counted for one sample; a multiply-accumulate counts as two. Values are float32. Batch norm is folded, as
in the deployed network.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...models.network import Network
from .engine import codec_of
from .methods import AdapterShape, Method, adapter_shapes

_FLOAT = 4


@dataclass(frozen=True)
class Cost:
    """Cost of one method on one network.

    Parameters
    ----------
    forward_flops : int
        Operations of network and adapters.
    forward_flops_on_a_hit : int or None
        Operations of the adapters alone, where a cache holds the rest; None without a cache.
    backward_flops : int
        Operations as the paper counts them, with the unused gradient of the adapters' inputs.
    backward_flops_needed : int
        Operations without this gradient.
    memory_bytes : int
        Parameters, their gradients, activations and the state of the backward pass; without the cache.
    cache_bytes : int
        Record of one sample in the forward cache.
    """

    trainable_parameters: int
    forward_flops: int
    forward_flops_on_a_hit: int | None
    backward_flops: int
    backward_flops_needed: int
    memory_bytes: int
    cache_bytes: int


def cost(network: Network, method: Method, rank: int = 4) -> Cost:
    """Parameters, operations and bytes of a method on a network, with adapters of a rank."""
    adapters = adapter_shapes(network, method, rank)
    adapter_parameters = sum(adapter.parameters for adapter in adapters)
    through_adapters = 2 * adapter_parameters
    network_forward = sum(stage.forward_flops for stage in network.stages)
    trainable = _own_trainable(network, method) + sum(adapter.trained(method) for adapter in adapters)
    needed = _own_backward(network, method) + _adapter_backward(adapters, method)
    unused = 2 * sum(a.rank * a.inputs for a in adapters if a.stage) if method.skips else 0
    codec = codec_of(network, method)
    return Cost(
        trainable,
        network_forward + through_adapters,
        through_adapters if codec else None,
        needed + unused,
        needed,
        _FLOAT * _floats_in_memory(network, method, adapters, trainable),
        codec.bytes if codec else 0,
    )


def _own_trainable(network: Network, method: Method) -> int:
    weights = sum(prod(stage.weight_shape) for stage in method.weights.of(network.stages))
    return weights + sum(stage.biases for stage in method.biases.of(network.stages))


def _own_backward(network: Network, method: Method) -> int:
    """Operations of the gradients of the network's weights, biases and activations, without adapters."""
    stages = network.stages
    flops = sum(2 * stage.macs for stage in method.weights.of(stages))
    flops += sum(prod(stage.computed_shape) for stage in method.biases.of(stages))
    if method.propagates:
        # gradients of the inputs of every stage except the first
        flops += sum(2 * stage.macs for stage in stages[1:])
        flops += sum(prod(stage.computed_shape) for stage in stages if stage.activation is not None)
    return flops


def _adapter_backward(adapters: tuple[AdapterShape, ...], method: Method) -> int:
    """Operations of dB, dA and dh; with parallel adapters also of A times dh, except at the network's input.

    With a fixed A, dA is not computed, and dh only where the gradient goes on to the adapter's input.
    """
    passed = [] if method.ends_in_logits else [a for a in adapters if a.stage]
    flops = sum(2 * a.trained(method) for a in adapters)
    flops += sum(2 * a.rank * a.outputs for a in (passed if method.fixed_a else adapters))
    return flops + sum(2 * a.rank * a.inputs for a in passed)


def _floats_in_memory(network: Network, method: Method, adapters: tuple[AdapterShape, ...], trainable: int) -> int:
    parameters = network.parameters + sum(adapter.parameters for adapter in adapters)
    pooled = [prod(stage.output_shape) for stage in network.stages if stage.pool is not None]
    outputs = sum(prod(stage.computed_shape) for stage in network.stages) + sum(pooled)
    activations = prod(network.input_shape) + outputs
    # gradients of all activations and the index of each maximum, or the gradient of the logits alone
    backward = outputs + sum(pooled) if method.propagates else network.classes
    return parameters + trainable + activations + backward + 2 * sum(adapter.rank for adapter in adapters)
