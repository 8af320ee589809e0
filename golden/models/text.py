"""One-line text of a network description: ``1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10``.

Two numbers stand for height and width, ``k3x5``; four for the sides, ``p0,1,0,1`` (top, bottom, left, right). A layer
that does not read the one before says what it reads, ``add@4,1`` or ``cat@4,1,0``: numbers of layers from 0, -1 for the
sample.

The presets are the papers' networks, and a small one for scikit-learn's digits.
"""

from __future__ import annotations

import re

from ..errors import UserError
from .activations import ACTIVATIONS, Activation, Relu, activation_from
from .layers import (
    Add,
    AveragePool,
    BatchNorm,
    Concat,
    Convolution,
    Depthwise,
    Flatten,
    Layer,
    Linear,
    MaxPool,
    Pair,
    Sides,
)
from .network import Network

_GRAMMAR = (
    "an input like 1x28x28 or 256, then conv6k5p2s1g2 (channels, kernel, padding, stride, groups), dw3p1 (depthwise), "
    f"{', '.join(kind.words for kind in ACTIVATIONS)}, pool2, pool3p1s2, avg2, "
    "add@4,1 (layers it reads), cat@4,1 (concatenation), flatten, fc10, norm"
)


def text_of(network: Network) -> str:
    """Format a network as text, without its name."""
    words = [
        _word(layer) + ("" if read == (number - 1,) else "@" + ",".join(map(str, read)))
        for number, (layer, read) in enumerate(zip(network.layers, network.reads, strict=True))
    ]
    return " ".join(["x".join(map(str, network.input_shape)), *words])


def network_from(text: str) -> Network:
    """Parse a network from text; the text is its name.

    Raises
    ------
    UserError
        If the text does not describe a network.
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


def _word(layer: Layer) -> str:
    match layer:
        case Convolution(channels, kernel, padding, stride, groups):
            return f"conv{channels}k{_pair(kernel)}" + _window(padding, stride) + (f"g{groups}" if groups != 1 else "")
        case Depthwise(kernel, padding, stride):
            return f"dw{_pair(kernel)}" + _window(padding, stride)
        case Linear(features):
            return f"fc{features}"
        case MaxPool(size, stride, padding):
            return f"pool{_pair(size)}{_padding(padding)}" + ("" if stride == size else f"s{_pair(stride)}")
        case AveragePool(size):
            return f"avg{_pair(size)}"
        case Activation():
            return layer.word
        case Flatten():
            return "flatten"
        case BatchNorm():
            return "norm"
        case Add():
            return "add"
        case Concat():
            return "cat"


def _pair(pair: Pair) -> str:
    return str(pair[0]) if pair[0] == pair[1] else "x".join(map(str, pair))


def _window(padding: Sides, stride: Pair) -> str:
    return _padding(padding) + ("" if stride == (1, 1) else f"s{_pair(stride)}")


def _padding(padding: Sides) -> str:
    sides = str(padding[0]) if len(set(padding)) == 1 else ",".join(map(str, padding))
    return f"p{sides}" if any(padding) else ""


_PAIR = r"(\d+(?:x\d+)?)"
_WINDOW = rf"{_PAIR}(?:p(\d+(?:,\d+,\d+,\d+)?))?(?:s{_PAIR})?"


def _layer(title: str, word: str, text: str) -> Layer:
    if found := re.fullmatch(rf"conv(\d+)k{_WINDOW}(?:g(\d+))?", title):
        window = _pair_of(found[2]), _sides_of(found[3] or "0"), _pair_of(found[4] or "1")
        return Convolution(int(found[1]), *window, int(found[5] or "1"))
    if found := re.fullmatch(rf"dw{_WINDOW}", title):
        return Depthwise(_pair_of(found[1]), _sides_of(found[2] or "0"), _pair_of(found[3] or "1"))
    if found := re.fullmatch(r"fc(\d+)", title):
        return Linear(int(found[1]))
    if found := re.fullmatch(rf"pool{_WINDOW}", title):
        return MaxPool(_pair_of(found[1]), _pair_of(found[3] or found[1]), _sides_of(found[2] or "0"))
    if found := re.fullmatch(rf"avg{_PAIR}", title):
        return AveragePool(_pair_of(found[1]))
    if activation := activation_from(title):
        return activation
    plain: dict[str, Layer] = {
        "flatten": Flatten(),
        "norm": BatchNorm(),
        "add": Add(),
        "cat": Concat(),
    }
    if title not in plain:
        raise UserError(f"{word!r} in {text!r} is not a layer: {_GRAMMAR}")
    return plain[title]


def _pair_of(text: str) -> Pair:
    height, _, width = text.partition("x")
    return int(height), int(width or height)


def _sides_of(text: str) -> int | Sides:
    if "," not in text:
        return int(text)
    top, bottom, left, right = map(int, text.split(","))
    return top, bottom, left, right


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
