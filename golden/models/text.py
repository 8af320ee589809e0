"""One-line text of a network description: ``1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10``.

Two numbers are height and width, ``k3x5``; four are sides, ``p0,1,0,1`` (top, bottom, left, right). A layer that does
not read the previous layer names its inputs, ``add@4,1`` or ``cat@4,1,0``: layer numbers from 0, -1 for the sample.

Presets: the papers' networks, and a small network for scikit-learn's digits.
"""

from __future__ import annotations

import re

from ..errors import UserError
from .activations import Relu
from .layers import LAYERS, BatchNorm, Convolution, Flatten, Layer, Linear, MaxPool
from .network import Network

_GRAMMAR = f"an input like 1x28x28 or 256, then {', '.join(kind.words for kind in LAYERS)}"


def text_of(network: Network) -> str:
    """Text of a network, without its name."""
    words = [
        layer.word + ("" if read == (number - 1,) else "@" + ",".join(map(str, read)))
        for number, (layer, read) in enumerate(zip(network.layers, network.reads, strict=True))
    ]
    return " ".join(["x".join(map(str, network.input_shape)), *words])


def network_from(text: str) -> Network:
    """Network of a text, which becomes its name.

    Raises
    ------
    UserError
        If the text is no network.
    """
    if re.search(r"\d{100}", text):  # Python reads no integer of any length
        raise UserError(f"{text[:20]!r}... does not describe a network: it has a number of 100 digits or more")
    shape, *words = text.split() or [""]
    if not re.fullmatch(r"\d+(x\d+)*", shape):
        raise UserError(f"{text!r} does not describe a network: {_GRAMMAR}")
    layers, sources = [], []
    for number, word in enumerate(words):
        title, at, read = word.partition("@")
        layers.append(_layer(title, word, text))
        if at and not re.fullmatch(r"-?\d+(,-?\d+)*", read):
            raise UserError(f"{word!r} in {text!r} is not a layer: {_GRAMMAR}")
        sources.append(tuple(map(int, read.split(","))) if at else (number - 1,))
    return Network(text, tuple(map(int, shape.split("x"))), tuple(layers), tuple(sources))


def _layer(title: str, word: str, text: str) -> Layer:
    for kind in LAYERS:
        if layer := kind.parsed(title):
            return layer
    raise UserError(f"{word!r} in {text!r} is not a layer: {_GRAMMAR}")


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
"""LeNet-5 of InstantFT (figure 4) for MNIST and SVHN; fan and HAR of Skip2-LoRA (section 5.1); digits."""


def preset(name: str) -> Network:
    """Preset network of a name."""
    if name not in NETWORKS:
        raise UserError(f"there is no network {name!r}; there are: {', '.join(NETWORKS)}, or --model file.py:build")
    return NETWORKS[name]
