"""Preset networks: those of the papers, and a small one for scikit-learn's digits."""

from __future__ import annotations

from ..errors import UserError
from .layers import BatchNorm, Convolution, Flatten, Layer, Linear, MaxPool, Relu
from .network import Network


def _lenet5(name: str, channels: int, side: int, padding: int) -> Network:
    layers: tuple[Layer, ...] = (
        *(Convolution(6, 5, padding), Relu(), MaxPool(2)),
        *(Convolution(16, 5), Relu(), MaxPool(2), Flatten()),
        *(Linear(120), Relu(), Linear(84), Relu(), Linear(10)),
    )
    return Network(name, (channels, side, side), layers)


def _three_layers(name: str, features: int, classes: int) -> Network:
    hidden: tuple[Layer, ...] = (Linear(96), BatchNorm(), Relu())
    return Network(name, (features,), (*hidden, *hidden, Linear(classes)))


NETWORKS = {
    network.name: network
    for network in (
        _lenet5("lenet5-mnist", 1, 28, 2),
        _lenet5("lenet5-svhn", 3, 32, 0),
        _three_layers("fan", 256, 3),
        _three_layers("har", 561, 6),
        Network(
            "digits",
            (1, 8, 8),
            (Convolution(8, 3, 1), Relu(), MaxPool(2), Flatten(), Linear(32), Relu(), Linear(10)),
        ),
    )
}
"""LeNet-5 of InstantFT (figure 4) for MNIST and SVHN; fan and HAR of Skip2-LoRA (section 5.1)."""


def preset(name: str) -> Network:
    """Look up a preset network by name."""
    if name not in NETWORKS:
        raise UserError(f"there is no network {name!r}; there are: {', '.join(NETWORKS)}, or --model file.py:build")
    return NETWORKS[name]
