"""Memory images of a mapped network: frozen parameters and samples."""

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
    """Image of the frozen parameters, (16 * frozen_beats,) bytes: all weights, then all biases.

    Weights are ordered by stage, group, word, lane and column. Words of two pixels have each weight and bias twice.
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
    """Frozen parameters of each stage from the image of `frozen_image`; of two pixels the left is read."""
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
    """Index of each weight of stage `at` among the values of all weight words: (channels, weights of a channel).

    In words of two pixels, `pixel` 0 is the left, 1 the right pixel.
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
    """Image of samples, (n, 16 * sample_beats) bytes, from (n, *input_shape) bytes or Q8.16."""
    flat = inputs.reshape(len(inputs), -1)
    stored = flat.astype(np.uint8) if mapping.byte_inputs else np.ascontiguousarray(flat, "<i4").view(np.uint8)
    return np.pad(stored, ((0, 0), (0, BEAT * mapping.sample_beats - stored.shape[1])))


def samples_of(mapping: Mapping, image: Bytes) -> NDArray[np.integer]:
    """Samples from the image of `samples_image`: (n, *input_shape) bytes or Q8.16."""
    rows = image.reshape(-1, BEAT * mapping.sample_beats)
    stored = rows if mapping.byte_inputs else rows.view("<i4")
    shape = mapping.input_shape
    return stored[:, : int(np.prod(shape))].reshape(-1, *shape)


def column_rows(mapping: Mapping, rows: Integers) -> Integers:
    """Rows of `columns` parameters, each padded to whole beats; flat."""
    return np.pad(rows, ((0, 0), (0, mapping.column_beats * BEAT // 2 - mapping.columns))).reshape(-1)


def parameter_bytes(values: Integers) -> Bytes:
    """Little-endian bytes of Q4.12."""
    return np.ascontiguousarray(values, "<i2").view(np.uint8)


def _positions(mapping: Mapping, at: int, pixel: int) -> Integers:
    """Position in a group's words of each weight of an output channel, in PyTorch's order."""
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
