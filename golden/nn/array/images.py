"""Memory images of a mapped network: frozen parameters and samples, byte for byte as a core reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...axi.bus import BEAT
from ...axi.regions import Bytes
from ...fixed import Integers
from ...models.layers import Convolution
from ..arithmetic.forward import StageIntegers
from .mapping import Mapping


def frozen_image(mapping: Mapping, frozen: Sequence[StageIntegers]) -> Bytes:
    """Build the image of the frozen parameters, (16 * frozen_beats,) bytes: all weights, then all biases.

    A weight word is stored lane by lane, a parameter for each column; a stage is stored group by group. Where words are
    of two pixels, weights and biases stand there twice.
    """
    weights, biases = np.zeros(mapping.weight_words * mapping.lanes * mapping.columns, np.int64), []
    for at, (own, stage) in enumerate(zip(frozen, mapping.stages, strict=True)):
        rows = np.zeros(stage.groups * mapping.columns, np.int64)
        for pixel in range(2 if stage.pair else 1):
            weights[weight_positions(mapping, at, pixel)] = own.weight.reshape(stage.channels, -1)
            first = stage.pair.columns * pixel if stage.pair else 0
            rows[first : first + stage.channels] = own.bias
        biases.append(column_rows(mapping, rows.reshape(-1, mapping.columns)))
    return parameter_bytes(np.concatenate([weights, *biases]))


def frozen_of(mapping: Mapping, image: Bytes) -> list[StageIntegers]:
    """Read frozen parameters from their image, as `frozen_image` builds it: those of each stage.

    Of words of two pixels the left one counts.
    """
    values = image.view("<i2").astype(np.int64)
    weights, biases = np.split(values, [mapping.weight_words * mapping.lanes * mapping.columns])
    rows = biases.reshape(-1, mapping.column_beats * BEAT // 2)[:, : mapping.columns]
    frozen, first = [], 0
    for at, (described, stage) in enumerate(zip(mapping.network_stages, mapping.stages, strict=True)):
        own = weights[weight_positions(mapping, at)].reshape(described.weight_shape)
        frozen.append(StageIntegers(own, rows[first : first + stage.groups].reshape(-1)[: described.biases]))
        first += stage.groups
    return frozen


def weight_positions(mapping: Mapping, at: int, pixel: int = 0) -> Integers:
    """Index of each weight of stage number `at` among the values of all weight words: (channels, weights of one).

    Where words are of two pixels, `pixel` is 0 for the left one and 1 for the right one.
    """
    stage = mapping.stages[at]
    if stage.within:
        # each channel has a lane, in the first column
        group, lane = np.divmod(np.arange(stage.channels), mapping.lanes)
        words = (stage.weights + group * stage.words)[:, None] + np.arange(stage.words)
        of_lanes: Integers = (words * mapping.lanes + lane[:, None]) * mapping.columns
        return of_lanes
    group, channel = np.divmod(np.arange(stage.channels), stage.parts * mapping.columns)
    part, column = np.divmod(channel, mapping.columns)
    if stage.pair:
        column += pixel * stage.pair.columns
    word, lane = np.divmod(_positions(mapping, at, pixel), stage.sum_lanes)
    words = (stage.weights + group * stage.words)[:, None] + word
    lanes = (part * stage.sum_lanes)[:, None] + lane
    found: Integers = (words * mapping.lanes + lanes) * mapping.columns + column[:, None]
    return found


def samples_image(mapping: Mapping, inputs: NDArray[np.integer]) -> Bytes:
    """Build the image of samples, (n, *input_shape) bytes or Q8.16: (n, 16 * sample_beats) bytes."""
    flat = inputs.reshape(len(inputs), -1)
    stored = flat.astype(np.uint8) if mapping.byte_inputs else np.ascontiguousarray(flat, "<i4").view(np.uint8)
    return np.pad(stored, ((0, 0), (0, BEAT * mapping.sample_beats - stored.shape[1])))


def samples_of(mapping: Mapping, image: Bytes) -> NDArray[np.integer]:
    """Read samples from their image, as `samples_image` builds it: (n, *input_shape) bytes or Q8.16."""
    rows = image.reshape(-1, BEAT * mapping.sample_beats)
    stored = rows if mapping.byte_inputs else rows.view("<i4")
    shape = mapping.input_shape
    return stored[:, : int(np.prod(shape))].reshape(-1, *shape)


def column_rows(mapping: Mapping, rows: Integers) -> Integers:
    """Start each row of `columns` parameters on a beat of its own; flat."""
    return np.pad(rows, ((0, 0), (0, mapping.column_beats * BEAT // 2 - mapping.columns))).reshape(-1)


def parameter_bytes(values: Integers) -> Bytes:
    """Store parameters in Q4.12 as bytes, two each, the lower first."""
    return np.ascontiguousarray(values, "<i2").view(np.uint8)


def _positions(mapping: Mapping, at: int, pixel: int) -> Integers:
    """Position in a group's words of each weight of an output of a pixel, in the network's own order."""
    stage, own = mapping.network_stages[at], mapping.stages[at]
    window, layout = mapping.window(at), mapping.layout(stage.source[0])
    if isinstance(stage.layer, Convolution):
        shape = stage.input_shape[0] // stage.layer.groups, *stage.layer.kernel
    elif layout.rows == layout.column == 1:
        return np.arange(stage.inputs)
    else:
        channels, height, width = stage.input_shape
        shape = channels, height, width
    channels, height, width = shape
    channel, y, x = np.indices(shape).reshape(3, -1)
    if own.pair:
        x, width = x + pixel * own.pair.apart, width + own.pair.apart
    if stage.source == (-1,) and mapping.row_replicas > 1:
        return (x * channels + channel) * height + y
    run = -(-window.values // own.sum_lanes) * own.sum_lanes
    if window.values == channels:  # a run is a pixel
        return (y * width + x) * run + channel
    return y * (run if window.down.count > 1 else width * channels) + x * channels + channel
