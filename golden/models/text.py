"""One-line text of a network description: ``1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10``."""

from __future__ import annotations

import re

from ..errors import UserError
from .network import BatchNorm, Convolution, Flatten, Layer, Linear, MaxPool, Network, Relu

_GRAMMAR = "an input like 1x28x28 or 256, then conv6k5p2 (channels, kernel, padding), relu, pool2, flatten, fc10, norm"


def text_of(network: Network) -> str:
    """Format a network as text, without its name."""
    return " ".join(["x".join(map(str, network.input_shape)), *map(_word, network.layers)])


def network_from(text: str) -> Network:
    """Parse a network from text; the text is its name.

    Raises
    ------
    UserError
        If the text does not describe a network.
    """
    shape, *layers = text.split() or [""]
    if not re.fullmatch(r"\d+(x\d+)*", shape):
        raise UserError(f"{text!r} does not describe a network: {_GRAMMAR}")
    return Network(text, tuple(map(int, shape.split("x"))), tuple(_layer(word, text) for word in layers))


def _word(layer: Layer) -> str:
    match layer:
        case Convolution(channels, kernel, padding):
            return f"conv{channels}k{kernel}" + (f"p{padding}" if padding else "")
        case Linear(features):
            return f"fc{features}"
        case MaxPool(size):
            return f"pool{size}"
        case Relu():
            return "relu"
        case Flatten():
            return "flatten"
        case BatchNorm():
            return "norm"


def _layer(word: str, text: str) -> Layer:
    if found := re.fullmatch(r"conv(\d+)k(\d+)(?:p(\d+))?", word):
        channels, kernel, padding = (int(number or 0) for number in found.groups())
        return Convolution(channels, kernel, padding)
    if found := re.fullmatch(r"fc(\d+)", word):
        return Linear(int(found[1]))
    if found := re.fullmatch(r"pool(\d+)", word):
        return MaxPool(int(found[1]))
    plain: dict[str, Layer] = {"relu": Relu(), "flatten": Flatten(), "norm": BatchNorm()}
    if word not in plain:
        raise UserError(f"{word!r} in {text!r} is not a layer: {_GRAMMAR}")
    return plain[word]
