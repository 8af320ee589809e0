"""How a network lies in the core: words of a tensor, the stages' loops, the images of parameters and records.

The core's memories are as wide as its multipliers. A *word* is `lanes` values of one tensor, or, of parameters,
`lanes` x `columns`: what each of `columns` outputs takes of those lanes. Activations of a map lie pixel by pixel,
channels beside each other, so that the window of a convolution is `kernel` runs of neighbours; the first
convolution's rows are kept `kernel` times beside each other, and its window is a single run. Adapters whose rank leaves
half of the columns idle take two words of their input at once; what adapters take in a cycle is a *row*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..axi.bus import BEAT
from ..errors import UserError
from ..fixed import Integers
from ..lora.adapters import Adapters, Shape
from ..models.network import Convolution, Network, Stage
from .forward import StageIntegers

Bytes = NDArray[np.uint8]

SCALES = 4
"""Most blocks, and so scales, that a word of a record has a part of."""
ZERO_CODE = 7
"""The NF4 code of 0: pads a record's words."""


@dataclass(frozen=True)
class Word:
    """Part of a tensor that is processed at once.

    Parameters
    ----------
    first, count : int
        Its values; other lanes are zero.
    block : int
        NF4 block of the first value, counted over all tensors of a record.
    borders : tuple of int
        The lanes at which the next block begins, and the one after that.
    """

    first: int
    count: int
    block: int
    borders: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """How often, and how far apart in the activations' memory."""

    count: int
    stride: int


@dataclass(frozen=True)
class StagePlan:
    """How a stage runs.

    Parameters
    ----------
    loops : tuple of Loop
        Innermost first: runs of lanes, rows of the kernel, the pool's columns and rows, outputs' columns and rows,
        groups of output channels.
    base : int
        Where its inputs begin in the activations' memory.
    weights, biases : int
        Its first word in either memory.
    relu : bool
    targets : tuple of int
        Strides of an output in the activations' memory: to the next column, row, group of channels.
    target : int
        Of the first output.
    outbox : int
        First address in the memory from which the record is made.
    channels : int
        Outputs; the last group may have fewer than there are columns.
    """

    loops: tuple[Loop, ...]
    base: int
    weights: int
    biases: int
    relu: bool
    target: int
    targets: tuple[int, int, int]
    outbox: int
    channels: int

    @property
    def cells(self) -> int:
        """Output positions."""
        return self.loops[4].count * self.loops[5].count

    @property
    def groups(self) -> int:
        """Of output channels."""
        return self.loops[6].count

    @property
    def words(self) -> int:
        """Words of weights for one group."""
        return self.loops[0].count * self.loops[1].count

    @property
    def cycles(self) -> int:
        """Words that the multipliers take for one sample."""
        return prod(loop.count for loop in self.loops)


@dataclass(frozen=True)
class Plan:
    """A network on the core.

    Parameters
    ----------
    network : Network
        Without batch norm.
    first : int
        The first stage whose input has an adapter; all later ones have one, too.
    rank, lanes, columns : int
    pixels : bool
        A sample is bytes that stand for 0 to 1, not Q8.16.
    """

    network: Network
    first: int = 0
    rank: int = 4
    lanes: int = 32
    columns: int = 4
    pixels: bool = True

    def __post_init__(self) -> None:
        name = self.network.name
        if any(stage.batch_norm for stage in self.network.stages):
            raise UserError(f"{name} has batch norm: fold it first (golden.models.network.deployed)")
        for what, value in (("lanes", self.lanes), ("columns", self.columns)):
            if value & (value - 1):
                raise UserError(f"{what} = {value} is not a power of two")
        if not 16 <= self.lanes <= 32 or not 2 <= self.columns <= 8:
            raise UserError(f"lanes = {self.lanes} is 16 or 32, columns = {self.columns} is 2 to 8")
        if not 1 <= self.rank <= self.columns:
            raise UserError(f"rank = {self.rank} needs as many columns; there are {self.columns}")
        if self.network.classes > self.lanes:
            raise UserError(f"{name} has {self.network.classes} classes; the core takes as many as lanes: {self.lanes}")
        if not 0 <= self.first < len(self.network.stages):
            raise UserError(f"{name} has stages 0 to {len(self.network.stages) - 1}, not {self.first}")

    # -- tensors -------------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """(NF4 blocks, values of each) of every stage's output."""
        stages = self.network.stages
        inner = [(stage.channels, stage.inputs // stage.channels) for stage in stages[1:]]
        return (*inner, (1, self.network.classes))

    @cached_property
    def sample_words(self) -> tuple[Word, ...]:
        """Of the network's input."""
        return self._words(1, self.network.stages[0].inputs, 0)

    @cached_property
    def record_words(self) -> tuple[tuple[Word, ...], ...]:
        """Of every stage's output."""
        begins = np.cumsum([0, *(count for count, _ in self.blocks)])
        return tuple(self._words(*pair, int(begin)) for pair, begin in zip(self.blocks, begins, strict=False))

    def _words(self, count: int, length: int, block: int) -> tuple[Word, ...]:
        words, first, total = [], 0, count * length
        while first < total:
            at = first // length
            end = min(first + self.lanes, total, (at + SCALES) * length)
            borders = tuple(edge - first for edge in range((at + 1) * length, end, length))
            words.append(Word(first, end - first, block + at, borders))
            first = end
        return tuple(words)

    @property
    def scales(self) -> int:
        """Scales of a record."""
        return sum(count for count, _ in self.blocks)

    @cached_property
    def adapter_words(self) -> tuple[tuple[Word, ...], ...]:
        """Of each adapter's input."""
        return (self.sample_words, *self.record_words[:-1])[self.first :]

    @property
    def adapters(self) -> int:
        """How many there are."""
        return len(self.adapter_words)

    @property
    def together(self) -> int:
        """Words of an adapter's input that the multipliers take at once: two where one leaves half of them idle."""
        return 2 if 2 << (self.rank - 1).bit_length() <= self.columns else 1

    @property
    def ranks(self) -> int:
        """Columns that each word of a row has: the rank, and some that stay zero."""
        return self.columns // self.together

    @cached_property
    def adapter_rows(self) -> tuple[int, ...]:
        """Of each adapter, how often the multipliers take `together` words of its input; the last may be alone."""
        return tuple(-(-len(words) // self.together) for words in self.adapter_words)

    @property
    def tiles(self) -> int:
        """Rows of all adapters' inputs, each with its words of parameters."""
        return sum(self.adapter_rows)

    @property
    def shape(self) -> Shape:
        """Of the adapters."""
        inputs = tuple(stage.inputs for stage in self.network.stages[self.first :])
        return Shape(inputs, self.network.classes, self.rank)

    # -- sizes in the memory outside, in beats ---------------------------------------------------------------------

    @property
    def sample_beats(self) -> int:
        """Of a sample."""
        return -(-self.network.stages[0].inputs * (1 if self.pixels else 4) // BEAT)

    @property
    def word_codes(self) -> int:
        """Beats of a word's codes."""
        return -(-self.lanes // 32)

    @property
    def code_beats(self) -> int:
        """Of a record's codes."""
        return sum(map(len, self.record_words)) * self.word_codes

    @property
    def scale_beats(self) -> int:
        """Of a record's scales, which follow the codes."""
        return -(-self.scales // SCALES)

    @property
    def record_beats(self) -> int:
        """Of a record in NF4."""
        return self.code_beats + self.scale_beats

    @property
    def raw_beats(self) -> int:
        """Of a record in Q8.16, four bytes a value."""
        return sum(map(len, self.record_words)) * self.lanes // 4

    @property
    def tile_beats(self) -> int:
        """Of a word of parameters."""
        return self.lanes * self.columns * 2 // BEAT

    @property
    def column_beats(self) -> int:
        """Of the biases of a group, or of what one adapter adds to one class."""
        return -(-self.columns * 2 // BEAT)

    @property
    def logit_beats(self) -> int:
        """Of a sample's logits."""
        return -(-self.network.classes * 4 // BEAT)

    @property
    def frozen_beats(self) -> int:
        """Of the frozen parameters' image: all weights, then all biases."""
        return self.weight_words * self.tile_beats + self.groups * self.column_beats

    @property
    def adapter_beats(self) -> int:
        """Of the adapters' image: every A, tile by tile, then B, class by class."""
        return self.tiles * self.tile_beats + self.network.classes * self.adapters * self.column_beats

    # -- stages ----------------------------------------------------------------------------------------------------

    @property
    def copies(self) -> int:
        """How often the rows of a sample are kept beside each other."""
        layer, (channels, *_) = self.network.stages[0].layer, self.network.input_shape
        if not isinstance(layer, Convolution):
            return 1
        apart = layer.kernel * -(-layer.kernel * channels // self.lanes)
        beside = -(-(layer.kernel**2) * channels // self.lanes)
        return layer.kernel if beside < apart else 1

    @property
    def weight_words(self) -> int:
        """Of all stages."""
        return sum(stage.groups * stage.words for stage in self.stages)

    @property
    def groups(self) -> int:
        """Of all stages' output channels."""
        return sum(stage.groups for stage in self.stages)

    @property
    def outbox_depth(self) -> int:
        """Values of a record that one column computes."""
        return sum(stage.groups * stage.cells for stage in self.stages)

    @property
    def image(self) -> int:
        """Values that a sample takes in the activations' memory."""
        return self._regions[1]

    @cached_property
    def images(self) -> int:
        """Samples that have room there: two, unless the memory would become deeper than a block RAM for it."""
        rest = self._regions[-1] - self._regions[1]
        return 2 if (2 * self.image + rest) // self.lanes < 512 else 1

    @property
    def activations(self) -> int:
        """Values of the activations' memory; a window may reach `lanes` beyond the last region."""
        return self._base(len(self.network.stages)) + self.lanes

    def _base(self, stage: int) -> int:
        return self._regions[stage] + (self.images - 1) * self.image * (stage > 0)

    @cached_property
    def _regions(self) -> tuple[int, ...]:
        ends = [0]
        for at, stage in enumerate(self.network.stages):
            height, pitch, _ = self._layout(at)
            size = height * pitch if isinstance(stage.layer, Convolution) else stage.inputs
            ends.append(ends[-1] + -(-size // self.lanes) * self.lanes)
        return tuple(ends)

    def _layout(self, at: int) -> tuple[int, int, int]:
        """Rows, values to the next row and to the next column of what a stage reads."""
        stage = self.network.stages[at]
        layer = stage.layer
        if not isinstance(layer, Convolution):
            return 1, stage.inputs, stage.channels if at else 1
        channels, height, width = stage.input_shape
        copies = self.copies if at == 0 else 1
        column = channels * copies
        pitch = (width + 2 * layer.padding) * column
        if copies > 1:
            _, rows, _ = stage.output_shape
            return rows * stage.pool, -(-pitch // self.lanes) * self.lanes, column
        return height + 2 * layer.padding, pitch, column

    @cached_property
    def stages(self) -> tuple[StagePlan, ...]:
        """All stages in order."""
        plans: list[StagePlan] = []
        weights = biases = outbox = 0
        for at, stage in enumerate(self.network.stages):
            loops = self._loops(at, stage)
            target, targets = self._target(at, stage)
            plan = StagePlan(loops, self._base(at), weights, biases, stage.relu, target, targets, outbox, stage.biases)
            plans.append(plan)
            weights += plan.groups * plan.words
            biases += plan.groups
            outbox += plan.groups * plan.cells
        return tuple(plans)

    def _loops(self, at: int, stage: Stage) -> tuple[Loop, ...]:
        groups = Loop(-(-stage.biases // self.columns), 0)
        if not isinstance(stage.layer, Convolution):
            once = (Loop(1, 0),) * 5
            return (Loop(-(-stage.inputs // self.lanes), self.lanes), *once, groups)
        _, pitch, column = self._layout(at)
        _, rows, columns = stage.output_shape
        kernel, pool = stage.layer.kernel, stage.pool
        runs = Loop(-(-kernel * column // self.lanes), self.lanes)
        taps = Loop(1 if at == 0 and self.copies > 1 else kernel, pitch)
        inner = Loop(pool, column), Loop(pool, pitch)
        return (runs, taps, *inner, Loop(columns, pool * column), Loop(rows, pool * pitch), groups)

    def _target(self, at: int, stage: Stage) -> tuple[int, tuple[int, int, int]]:
        if at + 1 == len(self.network.stages):
            return self._base(at + 1), (0, 0, 0)
        following = self.network.stages[at + 1]
        base, columns = self._base(at + 1), stage.output_shape[-1] if len(stage.output_shape) == 3 else 1
        if isinstance(following.layer, Convolution):
            _, pitch, column = self._layout(at + 1)
            padding = following.layer.padding
            return base + padding * (pitch + column), (column, pitch, self.columns)
        return base, (stage.biases, columns * stage.biases, self.columns)

    # -- images ----------------------------------------------------------------------------------------------------

    def frozen_image(self, frozen: Sequence[StageIntegers]) -> Bytes:
        """Frozen parameters as the core loads them: (16 * frozen_beats,) bytes."""
        tiles, biases = [], []
        for at, (own, plan) in enumerate(zip(frozen, self.stages, strict=True)):
            outputs = plan.groups * self.columns
            padded = np.zeros((outputs, plan.words * self.lanes), np.int64)
            places, taps = self._taps(at)
            padded[: plan.channels, places] = own.weight.reshape(plan.channels, -1)[:, taps]
            tiles.append(padded.reshape(plan.groups, self.columns, plan.words, self.lanes).transpose(0, 2, 3, 1))
            biases.append(self._beats(np.pad(own.bias, (0, outputs - plan.channels)).reshape(-1, self.columns)))
        return _bytes(np.concatenate([*(tile.reshape(-1) for tile in tiles), *biases]))

    def _taps(self, at: int) -> tuple[Integers, Integers]:
        """Where in a group's words each weight stands, and which it is in the network's own order."""
        stage, plan = self.network.stages[at], self.stages[at]
        if isinstance(stage.layer, Convolution):
            kernel, (channels, *_) = stage.layer.kernel, stage.input_shape
            channel, y, x = np.indices((channels, kernel, kernel)).reshape(3, -1)
            run = plan.loops[0].count * self.lanes
            if plan.loops[1].count == 1:
                places = (x * channels + channel) * kernel + y
            else:
                places = y * run + x * channels + channel
            return places, np.arange(len(places))
        own = np.arange(stage.inputs)
        if at == 0:
            return own, own
        pixels = stage.inputs // stage.channels
        return own % pixels * stage.channels + own // pixels, own

    def adapters_image(self, adapters: Adapters) -> Bytes:
        """Adapters as the core loads and stores them: (16 * adapter_beats,) bytes."""
        values = np.zeros((self.tiles, self.lanes, self.together, self.ranks), np.int64)
        for row, part, a, word in self._tiles(adapters):
            values[row, : word.count, part, : self.rank] = a[word.first : word.first + word.count]
        b = adapters.b.reshape(self.network.classes * self.adapters, self.rank)
        b = np.pad(b, ((0, 0), (0, self.columns - self.rank)))
        return _bytes(np.concatenate([values.reshape(-1), self._beats(b)]))

    def adapters_of(self, image: Bytes) -> Adapters:
        """The reverse."""
        values, b = np.split(image.view("<i2").astype(np.int64), [self.tiles * self.lanes * self.columns])
        values = values.reshape(self.tiles, self.lanes, self.together, self.ranks)
        found = Adapters(self.shape, np.zeros(self.shape.parameters, np.int64))
        for row, part, a, word in self._tiles(found):
            a[word.first : word.first + word.count] = values[row, : word.count, part, : self.rank]
        found.b[:] = b.reshape(-1, self.column_beats * BEAT // 2)[:, : self.rank].reshape(found.b.shape)
        return found

    def _tiles(self, adapters: Adapters) -> list[tuple[int, int, Integers, Word]]:
        """Row and number in it of each word, which is of an adapter's input."""
        begins = np.cumsum([0, *self.adapter_rows]).tolist()
        return [
            (begin + number // self.together, number % self.together, a, word)
            for begin, a, words in zip(begins, adapters.a, self.adapter_words, strict=False)
            for number, word in enumerate(words)
        ]

    def _beats(self, rows: Integers) -> Integers:
        """Rows of `columns` numbers, each begun on a beat of its own."""
        return np.pad(rows, ((0, 0), (0, self.column_beats * BEAT // 2 - self.columns))).reshape(-1)

    def samples_image(self, inputs: NDArray[np.integer]) -> Bytes:
        """Samples, (n, *input_shape) pixels or Q8.16: (n, 16 * sample_beats) bytes."""
        flat = inputs.reshape(len(inputs), -1)
        kept = flat.astype(np.uint8) if self.pixels else np.ascontiguousarray(flat, "<i4").view(np.uint8)
        return np.pad(kept, ((0, 0), (0, BEAT * self.sample_beats - kept.shape[1])))


def order_image(batches: Sequence[tuple[Integers, Integers]]) -> Bytes:
    """Visits of (indices, labels) batches: 4 bytes each, a batch begun on a beat of its own."""
    parts = []
    for indices, labels in batches:
        visits = (indices | labels << 24).astype("<u4").view(np.uint8)
        parts.append(np.pad(visits, (0, -len(visits) % BEAT)))
    return np.concatenate(parts)


def _bytes(values: Integers) -> Bytes:
    return np.ascontiguousarray(values, "<i2").view(np.uint8)
