"""Memory images of both cores, written and read only by the rules of docs/memory-images.md.

Only `numpy` and the page: no layout, mapping or size comes from golden. A network is a list of `Stage`.
"""

from math import ceil, prod
from typing import NamedTuple

import numpy as np

from fabtune.golden.models.layers import Depthwise, MaxPool

BEAT = 16


class Stage(NamedTuple):
    """A layer with weights, from a network's one-line description."""

    inputs: tuple  # (channels, height, width) or (features,)
    outputs: tuple  # behind ReLU and pooling
    kernel: tuple = ()  # height, width; none: fully connected
    depthwise: bool = False
    pixels: int = 1  # that are computed: those of all windows of the pool
    added: bool = False  # whether a residual is
    groups: int = 1
    part: bool = False  # of what a concatenation puts side by side it reads some
    parts: tuple = ()  # stages whose outputs it reads, -1 for the sample
    stride: int = 1  # columns from a window to the next
    pool_stride: int = 1  # the same of the pool
    max_width: int = 1  # of the windows of a max-pool
    beyond: bool = False  # whether these go beyond the map
    shared: bool = False  # whether a concatenation puts its outputs beside others


def stages_of(network):
    """Stages of a description."""
    beside = [set(own) for one in network.stages for own in (one.source, one.residual or ()) if len(own) > 1]
    # regions with a common tensor are merged
    for one in beside * 2:
        for other in beside:
            if one & other:
                one |= other
    return [
        Stage(
            one.input_shape,
            one.output_shape,
            getattr(one.layer, "kernel", ()),
            isinstance(one.layer, Depthwise),
            prod(one.output_shape[1:]) * (prod(one.pool.size) if one.pool else 1),
            one.residual is not None,
            getattr(one.layer, "groups", 1),
            any(set(one.source) < region for region in beside),
            one.source,
            *(getattr(part, "stride", (1, 1))[1] for part in (one.layer, one.pool)),
            one.pool.size[1] if isinstance(one.pool, MaxPool) else 1,
            any(getattr(one.pool, "padding", ())),
            any(at in region for region in beside),
        )
        for at, one in enumerate(network.stages)
    ]


def beats(data):
    """Pad bytes to whole beats with zeros."""
    return data + bytes(-len(data) % BEAT)


def place_in_group(stages, at, lanes, halved=False, further=0, right=0):
    """Index of each weight of an output, in PyTorch's order, among the lanes x words of its group; and the words.

    The window has `further` columns more than the kernel; the kernel begins `right` columns after the window's first.
    """
    stage = stages[at]
    of_sum = lanes // 2 if halved else lanes
    if stage.groups > 1 or stage.part:
        channels, (height, width) = stage.inputs[0] // stage.groups, stage.kernel or stage.inputs[1:]
        channel, y, x = np.indices((channels, height, width)).reshape(3, -1)
        x, width = x + right, width + further
        run = ceil(channels / of_sum)
        return (y * width + x) * run * of_sum + channel, height * width * run
    if not stage.kernel:
        index = np.arange(prod(stage.inputs))
        if at and len(stage.inputs) == 3:
            channels, pixels = stage.inputs[0], prod(stage.inputs[1:])
            index = index % pixels * channels + index // pixels
        return index, ceil(len(index) / lanes)
    channels, (height, width) = stage.inputs[0], stage.kernel
    channel, y, x = np.indices((channels, height, width)).reshape(3, -1)
    beside = at == 0 and ceil(height * width * channels / lanes) < height * ceil(width * channels / lanes)
    x, width = x + right, width + further
    if beside:
        return (x * channels + channel) * height + y, ceil(height * width * channels / of_sum)
    row_words = ceil(width * channels / of_sum)
    return y * row_words * of_sum + x * channels + channel, height * row_words


def paired_stages(stages, lanes, columns, perturbed):
    """Convolutions with words of two pixels, with the columns of the input and of the array between the pixels.

    zotrain's image, with `perturbed` weights, has fewer of them.
    """
    found = {}
    for at, one in enumerate(stages):
        outputs = one.outputs[0]
        if not one.kernel or one.depthwise or one.groups > 1 or 2 * outputs > columns or one.added or one.beyond:
            continue
        ways = []
        if one.max_width % 2 == 0:
            ways.append((one.stride, columns // 2))
        if one.outputs[2] % 2 == 0 and not one.shared:
            ways.append((one.stride * one.pool_stride, outputs))
        least = 2 * place_in_group(stages, at, lanes)[1]
        for apart, offset in reversed(ways):
            place, words = place_in_group(stages, at, lanes, False, apart)
            copy, _ = place_in_group(stages, at, lanes, False, apart, apart)
            if perturbed and (columns < 16 or (place // lanes != copy // lanes).any() or one.part):
                continue
            if words < least:
                found[at], least = (apart, offset), words
    return found


def halved_stages(stages, lanes, columns, pairs):
    """Indices of the convolutions whose lanes have halves with separate sums."""
    cycles, saved = 0, {}
    for at, one in enumerate(stages):
        if at in pairs:
            cycles += one.pixels // 2 * place_in_group(stages, at, lanes, False, pairs[at][0])[1]
        elif one.kernel and not one.depthwise:
            words, halves = (place_in_group(stages, at, lanes, half)[1] + one.added for half in (False, True))
            whole = one.pixels * ceil(one.outputs[0] / columns) * words
            cycles += whole
            if one.groups > 1 and one.outputs[0] // one.groups % (2 * columns):
                continue
            if one.added and 4 * columns > lanes:
                continue
            saved[at] = whole - one.pixels * ceil(one.outputs[0] / 2 / columns) * max(halves, 2)
    found = {at for at, own in saved.items() if own > 0}
    return found if 8 * sum(saved[at] for at in found) >= cycles else set()


def write_parameters(stages, weights, biases, lanes, columns, perturbed):
    """Image of all weights, each (outputs, inputs...), then all biases; `perturbed` for zotrain's image."""
    words, ends = [], []
    pairs = paired_stages(stages, lanes, columns, perturbed)
    for at, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        flat = weight.reshape(len(weight), -1)
        if stages[at].depthwise:
            for first in range(0, len(flat), lanes):
                group = np.zeros((flat.shape[1], lanes, columns), "<i2")
                own = flat[first : first + lanes]
                group[:, : len(own), 0] = own.T
                words.append(group.tobytes())
            ends += bias_groups(bias, columns)
            continue
        if at in pairs:
            apart, offset = pairs[at]
            twice = np.zeros(columns, "<i2")
            for right in range(2):
                place, count = place_in_group(stages, at, lanes, False, apart, right * apart)
                group = group if right else np.zeros((count, lanes, columns), "<i2")
                own = slice(right * offset, right * offset + len(flat))
                group[place // lanes, place % lanes, own], twice[own] = flat.T, bias
            words.append(group.tobytes())
            ends += bias_groups(twice, columns)
            continue
        halves = 2 if at in halved_stages(stages, lanes, columns, pairs) else 1
        place, count = place_in_group(stages, at, lanes, halves == 2)
        for first in range(0, len(flat), halves * columns):
            group = np.zeros((count, halves, lanes // halves, columns), "<i2")
            for half in range(halves):
                own = flat[first + half * columns :][:columns]
                group[place // (lanes // halves), half, place % (lanes // halves), : len(own)] = own.T
            words.append(group.tobytes())
        ends += bias_groups(bias, columns)
    return b"".join(words + ends)


def bias_groups(bias, columns):
    """Biases of each group of outputs, padded to whole beats."""
    filled = np.pad(bias, (0, -len(bias) % columns)).astype("<i2")
    return [beats(filled[o : o + columns].tobytes()) for o in range(0, len(filled), columns)]


def write_samples(samples, as_bytes):
    """Image of samples, channel by channel."""
    kind = "u1" if as_bytes else "<i4"
    return b"".join(beats(one.reshape(-1).astype(kind).tobytes()) for one in samples)


def write_order(batches):
    """Image of instantft's sample schedule, (indices, labels) of each batch."""
    return b"".join(
        beats(b"".join((int(i) | int(label) << 24).to_bytes(4, "little") for i, label in zip(*batch, strict=True)))
        for batch in batches
    )


def write_steps(steps, batch):
    """Image of zotrain's sample schedule, (rate, indices, labels) of each step."""
    image = b""
    for rate, indices, labels in steps:
        words = [rate | (len(indices) - 1) << 16]
        words += [int(i) | int(label) << 24 for i, label in zip(indices, labels, strict=True)]
        words += [0] * (1 + batch - len(words))
        image += beats(b"".join(word.to_bytes(4, "little") for word in words))
    return image


def read_logits(image, classes):
    """Logits, (entries, classes)."""
    size = ceil(classes * 4 / BEAT) * BEAT
    return np.array([np.frombuffer(image[at : at + 4 * classes], "<i4") for at in range(0, len(image), size)])


# -- instantft: words of activations, adapters, records ----------------------------------------------------------------


def tensor_words(blocks, length, lanes):
    """Words of a tensor with a number of NF4 blocks of a length: (first value, number of values)."""
    words, first = [], 0
    while first < blocks * length:
        end = min(first + lanes, blocks * length, (first // length + 4) * length)
        words.append((first, end - first))
        first = end
    return words


def tensors(stages):
    """Blocks and values of each tensor: outputs of each stage, the logits last."""
    shapes = [one.outputs for one in stages]
    return [(shape[0], prod(shape[1:])) if len(shape) == 3 else (1, *shape) for shape in shapes]


def adapter_inputs(stages, rank, lanes, tuned, together):
    """Words of each adapter's input, and whether a row with a 1 follows."""
    of_tensors = [tensor_words(*one, lanes) for one in tensors(stages)]
    words = []
    for stage in stages:
        own = []
        for part in stage.parts:
            # each part begins on a new row
            own += [(0, 0)] * (-len(own) % together)
            own += of_tensors[part] if part >= 0 else tensor_words(1, prod(stages[0].inputs), lanes)
        words.append(own)
    if tuned in ("layer", "biases"):
        return [(words[-1] if tuned == "layer" else [], True)] * ceil(stages[-1].outputs[0] / rank)
    return [(one, False) for one in (words[-1:] if tuned == "last" else words)]


def words_of_a_row(rank, columns):
    """Words of an input within a row of A."""
    rounded = 1
    while rounded < rank:
        rounded *= 2
    return 2 if 2 * rounded <= columns else 1


def a_places(stages, rank, lanes, columns, tuned):
    """For each adapter the index of A[r, i] among the parameters of all A: (rank, inputs); and their number."""
    together, places, row = words_of_a_row(rank, columns), [], 0
    ranks = np.arange(rank)[:, None]
    for words, constant in adapter_inputs(stages, rank, lanes, tuned, together):
        own = []
        for number, (_, count) in enumerate(words):
            lane = np.arange(count)
            at = (row + number // together) * lanes * columns + lane * columns
            own.append(at + number % together * (columns // together) + ranks)
        row += ceil(len(words) / together)
        if constant:
            own.append(row * lanes * columns + ranks)
            row += 1
        places.append(np.concatenate(own, axis=1))
    return places, row * lanes * columns


def write_adapters(stages, a, b, lanes, columns, tuned="all"):
    """Image of adapters: each A (rank, inputs), each B (classes, rank)."""
    rank = len(a[0])
    places, size = a_places(stages, rank, lanes, columns, tuned)
    image = np.zeros(size, "<i2")
    for place, own in zip(places, a, strict=True):
        image[place] = own
    rows = [beats(one[label].astype("<i2").tobytes()) for label in range(len(b[0])) for one in b]
    return image.tobytes() + b"".join(rows)


def read_adapters(stages, image, rank, lanes, columns, tuned="all"):
    """Each A (rank, inputs) and each B (classes, rank) of an image."""
    places, size = a_places(stages, rank, lanes, columns, tuned)
    values = np.frombuffer(image[: 2 * size], "<i2")
    rest = np.frombuffer(image[2 * size :], "<i2").reshape(-1, len(places), BEAT // 2)
    return [values[place] for place in places], [rest[:, at, :rank] for at in range(len(places))]


def record_bytes(stages, lanes, raw=False):
    """Bytes of a record."""
    words = sum(len(tensor_words(*one, lanes)) for one in tensors(stages))
    scales = sum(count for count, _ in tensors(stages))
    return words * 4 * lanes if raw else words * len(beats(bytes(lanes // 2))) + len(beats(bytes(4 * scales)))


LEVELS = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635),
    *(-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
    *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)
"""QLoRA, appendix E."""


def nf4_values(codes, scales):
    """Values of codes by docs/nf4.md: levels with 16 fraction bits times scale, half to even."""
    products = np.rint(np.array(LEVELS) * 65536).astype(np.int64)[codes] * scales.astype(np.int64)
    return np.rint(products / 65536).astype(np.int64)  # products have fewer than 53 bits


def read_records(stages, image, lanes):
    """Values of each record in NF4, (records, values), and the codes that pad the words."""
    words = [(tensor, *word) for tensor, one in enumerate(tensors(stages)) for word in tensor_words(*one, lanes)]
    code_bytes = len(beats(bytes(lanes // 2)))
    blocks = [count for count, _ in tensors(stages)]
    found, padding, size = [], set(), record_bytes(stages, lanes)
    for start in range(0, len(image), size):
        record = image[start : start + size]
        scales = np.frombuffer(record[len(words) * code_bytes :], "<u4")[: sum(blocks)]
        values = []
        for number, (tensor, first, count) in enumerate(words):
            packed = np.frombuffer(record[number * code_bytes : (number + 1) * code_bytes], "u1")
            codes = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)
            padding |= set(codes[count:].tolist())
            block = sum(blocks[:tensor]) + (first + np.arange(count)) // tensors(stages)[tensor][1]
            values.append(nf4_values(codes[:count], scales[block]))
        found.append(np.concatenate(values))
    return np.array(found), padding


def read_raw_records(stages, image, lanes):
    """Values of each record in Q8.16: (records, values)."""
    words = [word for one in tensors(stages) for word in tensor_words(*one, lanes)]
    rows = np.frombuffer(image, "<i4").reshape(-1, len(words), lanes)
    return np.concatenate([rows[:, at, :count] for at, (_, count) in enumerate(words)], axis=1)


# -- zotrain: rows of deltas, records of slopes ------------------------------------------------------------------------


def delta_rows(stages, lanes, columns):
    """Rows of unfolded deltas."""
    pairs = paired_stages(stages, lanes, columns, perturbed=True)

    def rows(parts):
        groups = [ceil(one.outputs[0] / columns) for one in stages]
        words = 0
        for at, count in enumerate(groups):
            one = stages[at]
            if one.depthwise:
                words += ceil(one.outputs[0] / lanes) * prod(one.kernel)
            elif at in pairs:
                words += place_in_group(stages, at, lanes, False, pairs[at][0])[1]
            else:
                halved = at in halved_stages(stages, lanes, columns, pairs)
                words += place_in_group(stages, at, lanes, halved)[1] * ceil(count / (1 + halved))
        return sum(ceil(count * parts / lanes) for count in groups) + words * parts

    parts = 1
    while lanes * columns > 64 * parts and rows(2 * parts) <= 512:
        parts *= 2
    return rows(parts)


def write_deltas(deltas):
    """Image of rows of deltas."""
    return b"".join(beats(row.astype("<i4").tobytes()) for row in deltas)


def read_deltas(image, rows, numbers):
    """Deltas: (rows, numbers)."""
    size = ceil(4 * numbers / BEAT) * BEAT
    assert len(image) == rows * size
    return np.frombuffer(image, "<i4").reshape(rows, -1)[:, :numbers]


class Slope(NamedTuple):
    """A record of zotrain."""

    plus: np.ndarray
    minus: np.ndarray
    position: int
    coefficient: int
    difference: int


def read_slopes(image, sizes, batch):
    """Records of projected gradients with these numbers of samples."""
    room = ceil(4 * batch / BEAT) * BEAT
    found = []
    for number, size in enumerate(sizes):
        record = image[number * (room + BEAT) : (number + 1) * (room + BEAT)]
        pairs = np.frombuffer(record[: 4 * size], "<u2").reshape(-1, 2)
        last = record[room:]
        numbers = [int.from_bytes(last[:4], "little"), int.from_bytes(last[4:8], "little", signed=True)]
        found.append(Slope(pairs[:, 0], pairs[:, 1], *numbers, int.from_bytes(last[8:], "little", signed=True)))
    return found
