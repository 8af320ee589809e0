"""`tile_weights`: weights of both sides of a step, from the weight stream, sensitive weights (corrections) and offsets.

A tile is dequantised once and leaves twice: with the offsets of the plus side, then of the minus side. For the
arithmetic see `TransformerModel.parameters`. A correction replaces a weight whose code is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Supply, Words, described, last_flags, rows_of, words_together
from ...errors import check_range
from ...fixed import Q8_16, Format, Integers, Overflow, narrow
from ...memories.plan import MemoryShape
from ...rng.perturbation import cycles_of
from ...rng.urng import BIT
from ..frozen_base import BLOCK, WEIGHT
from .tile_dequant import (
    BEAT_CODES,
    BEAT_VALUES,
    LENGTH_BITS,
    MATRICES,
    Beats,
    TensorKind,
    TileDequantSpec,
)

PLACE_BITS = 32
OFFSET = Format(21, 0)
"""Offset of a value; exact: deltas and a step's change are below 16, with 16 fraction bits."""
TILE_OFFSET = Format(WEIGHT.width + 1, 0)
"""Offset of a tile's weight; saturated, as the sum saturates to one bit less."""


class OffsetKind(IntEnum):
    """Kind of a tensor's offsets: the parameters that a word of offsets covers."""

    NONE = 0
    TILES = 1
    """A word for a tile, or for as many values as a tile has weights."""
    CORRECTIONS = 2
    """A word for a beat's number of corrections; other weights are frozen."""
    ROW = 3
    """A word for `lanes` values of a row; the row is a column of a matrix's tile."""


class TensorOperation(NamedTuple):
    """Word of the stream `operation`: fields of a tensor's `Beats`, `OffsetKind` and number of its corrections.

    `first` is the perturbation number of a row's first value.
    """

    kind: int
    length: int
    blocks: int = 1
    tiles: int = 1
    offsets: int = OffsetKind.NONE
    corrections: int = 0
    first: int = 0

    @property
    def matrix(self) -> bool:
        return self.kind in MATRICES

    @property
    def beats(self) -> Beats:
        return Beats(*self[: len(Beats._fields)])


FIELD_MEANINGS = {
    "operation.kind": "0 matrix in NF4, 1 matrix of 4 bytes a weight, 2 vector of 24 bits, 3 vector of 18 bits",
    "corrections.error": "it was not read",
    "w.last": "the final beat of a side",
    "w.error": "something was wrong in this tile, or in one before it in the tensor",
    "v.last": "the tensor's final word",
    "v.error": "a beat of the tensor was in error",
}
"""Meanings of fields, by port and field."""


@dataclass(frozen=True, kw_only=True)
class TileWeightsSpec(Spec):
    """Parameters and model of `tile_weights`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: 8, 16, 32 or 64, so that tiles divide a block of 64 inputs.
    columns : int
        Outputs of a tile: 4, 8, 16 or 32.
    numbers : int
        Perturbation numbers per word, 2 to 64: parameter j of a word takes number ``j mod numbers``.
    """

    name: ClassVar[str] = "tile_weights"
    summary: ClassVar[str] = "weights of both sides of a step: stream of weights, sparse corrections, offsets of words"

    lanes: int = 32
    columns: int = 16
    numbers: int = 31

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("numbers", self.numbers, 2, 64)
        _ = self.dequant

    @cached_property
    def dequant(self) -> TileDequantSpec:
        return TileDequantSpec(lanes=self.lanes, columns=self.columns)

    @property
    def width(self) -> int:
        """Weights a beat: two lanes of a tile."""
        return 2 * self.columns

    @property
    def weights(self) -> int:
        return self.lanes * self.columns

    @property
    def tile_beats(self) -> int:
        return self.lanes // 2

    @property
    def latency(self) -> int:
        """Cycles from the operation of an NF4 matrix without corrections to its first beat, in an idle block.

        The cycles are for the operation, the scales, a tile's words in the dequantisers, the tile's end, and its read.
        """
        return 1 + self.dequant.scale_beats + self.fill_cycles - 1 + self.dequant.latency + 2 + 2

    @property
    def fill_cycles(self) -> int:
        return self.weights // self.dequant.width

    @property
    def keeps_up(self) -> bool:
        """True if a tile fills while the tile before leaves, at a beat per cycle."""
        return self.fill_cycles + self.dequant.scale_beats + 2 <= self.lanes

    def streams(self) -> dict[str, Stream]:
        number = Format.up_to(self.numbers - 1)
        operation = (
            *self.dequant.operation_fields,
            Field(
                "offsets",
                Format(2, 0, signed=False),
                doc="0 none; 1 a word a tile, or for as many values; 2 words of corrections; 3 words of a row",
            ),
            Field("corrections", Format(LENGTH_BITS, 0, signed=False), doc="corrections of a matrix"),
            Field("first", number, doc="with 3: number that the first value takes"),
        )
        place = Field(
            "place",
            Format(PLACE_BITS, 0, signed=False),
            doc="place in the tensor's tiles, one behind the other; ascending",
        )
        last, error = Field("last", BIT), Field("error", BIT)
        tile = Format(PLACE_BITS - self.weights.bit_length() + 1, 0, signed=False)
        sides = (Field(side, OFFSET, self.numbers) for side in ("plus", "minus"))
        vector = (Field(side, Q8_16, BEAT_VALUES) for side in ("plus", "minus"))
        weight = Field("weight", WEIGHT, self.width, doc="two lanes of a tile, saturated")
        return described(
            {
                "operation": Stream(
                    "in",
                    operation,
                    doc="The next tensor, as `golden.stream.weights.tile_weights.TensorOperation` describes it.",
                ),
                "beats": self.dequant.streams()["beats"],
                "corrections": Stream(
                    "in",
                    (place, Field("value", WEIGHT, doc="replaces the weight there"), error),
                    doc="Weights that replace others, at ascending places in the stream of its weights.",
                ),
                "offsets": Stream(
                    "in",
                    tuple(sides),
                    doc="Words of offsets, in the order of their use. Those of a tile have at most 19 bits.",
                ),
                "w": Stream(
                    "out",
                    (
                        weight,
                        Field("side", BIT, doc="0 plus, 1 minus: all beats of one side, then of the other"),
                        last,
                        error,
                        Field("tile", tile, doc="number of the tile in its tensor"),
                    ),
                    doc="Tiles: all beats of the plus side (0), then those of the minus side; `last` marks the final"
                    " one of each side. `error`: a beat or a correction of this tile, the `tile`-th of its "
                    "tensor, or of one before was wrong.",
                ),
                "v": Stream(
                    "out",
                    (*vector, last, error),
                    doc="Values of both sides; `last` marks a tensor's final word, `error` those from a beat in "
                    "error on.",
                ),
            },
            FIELD_MEANINGS,
        )

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Two tiles of each side; each lane of a beat has its own memory, because a correction writes a single lane."""
        return (MemoryShape("tiles", 2 * self.tile_beats, WEIGHT.width, count=2 * self.width),)

    # -- the model ---------------------------------------------------------------------------------------------------

    def needs(self, operation: TensorOperation) -> dict[str, int]:
        """Input words of a tensor, by stream."""
        beats = operation.length * self.dequant.record_beats(operation.kind)
        corrections = operation.corrections if operation.matrix else 0
        words = 0
        if operation.offsets == OffsetKind.CORRECTIONS:
            words = cycles_of(corrections, self.width)
        elif operation.matrix and operation.offsets == OffsetKind.TILES:
            words = self.tiles(operation)
        elif not operation.matrix and operation.offsets != OffsetKind.NONE:
            each = self.lanes if operation.offsets == OffsetKind.ROW else self.weights
            words = cycles_of(BEAT_VALUES * operation.length, each)
        return {"beats": beats, "corrections": corrections, "offsets": words}

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Tensors whose inputs are complete."""
        outputs: dict[str, list[Words]] = {"w": [], "v": []}
        supply = Supply(inputs)
        for operation in rows_of(inputs["operation"], TensorOperation):
            taken = supply.take(self.needs(operation))
            if taken is None:
                break
            if operation.matrix:
                outputs["w"].append(self._matrix(operation, taken))
            else:
                outputs["v"].append(self._vector(operation, taken))
        return {port: words_together(self.streams()[port].fields, parts, words) for port, parts in outputs.items()}

    def _vector(self, operation: TensorOperation, inputs: dict[str, Words]) -> Words:
        form = WEIGHT if operation.kind == TensorKind.FACTORS else Q8_16
        values, error = self._dequantised(operation, inputs["beats"])
        place, first, step, each = np.arange(values.size), 0, 1, self.weights
        if operation.offsets == OffsetKind.ROW:
            first, step, each = operation.first, self.columns, self.lanes
        sides = {}
        for side in ("plus", "minus"):
            moved = values.reshape(-1)
            if len(inputs["offsets"][side]):
                moved = moved + inputs["offsets"][side][place // each, (first + step * (place % each)) % self.numbers]
            sides[side] = moved.clip(form.minimum, form.maximum).reshape(values.shape)
        return sides | {"last": last_flags([len(values)]), "error": error}

    def _matrix(self, operation: TensorOperation, inputs: dict[str, Words]) -> Words:
        words, error = self._dequantised(operation, inputs["beats"])
        tiles = words.reshape(-1, self.weights)
        error = error.reshape(len(tiles), -1)[:, -1]
        if operation.kind == TensorKind.MATRIX:
            tiles = narrow(tiles, WEIGHT, WEIGHT, overflow=Overflow.WRAP)
        both = np.stack([tiles, tiles], axis=1)
        sides = [inputs["offsets"][side] for side in ("plus", "minus")]
        wrong = self._correct(both, operation, inputs["corrections"], sides)
        if operation.offsets == OffsetKind.TILES:
            number = np.arange(self.weights) % self.numbers
            both = both + np.stack([side[:, number] for side in sides], axis=1)
            both = both.clip(WEIGHT.minimum, WEIGHT.maximum)
        error = np.maximum.accumulate(error | wrong)
        beats = 2 * self.tile_beats
        flags = {
            "side": np.tile(np.arange(2).repeat(self.tile_beats), len(tiles)),
            "last": np.tile(np.arange(beats) % self.tile_beats == self.tile_beats - 1, len(tiles)).astype(np.int64),
            "error": error.repeat(beats),
            "tile": np.arange(len(tiles)).repeat(beats),
        }
        return {"weight": both.reshape(-1, self.width)} | {name: flag[:, None] for name, flag in flags.items()}

    def _correct(
        self, both: Integers, operation: TensorOperation, corrections: Words, sides: list[Integers]
    ) -> Integers:
        """Apply valid corrections to tiles of both sides; return flags of the tiles with an invalid correction."""
        wrong = np.zeros(len(both), np.int64)
        tile, top = 0, -1
        for number, (place, value, error) in enumerate(
            zip(*(corrections[name][:, 0].tolist() for name in ("place", "value", "error")), strict=True)
        ):
            # addresses beyond the tensor's end belong to its last tile
            tile = min(max(tile, place // self.weights), len(both) - 1)
            if place <= top or place // self.weights != tile:
                wrong[tile] = 1
                continue
            wrong[tile] |= error
            top = place
            for side in range(2):
                moved = value
                if operation.offsets == OffsetKind.CORRECTIONS:
                    moved += int(sides[side][number // self.width, number % self.width % self.numbers])
                both[tile, side, place % self.weights] = min(max(moved, WEIGHT.minimum), WEIGHT.maximum)
        return wrong

    def _dequantised(self, operation: TensorOperation, beats: Words) -> tuple[Integers, Integers]:
        fields = {name: np.array([[value]]) for name, value in operation.beats._asdict().items()}
        outputs = self.dequant.run({"operation": fields, "beats": beats}, len(beats["data"]) * BEAT_CODES)
        coded = operation.kind == TensorKind.NF4
        return (
            (outputs["o"]["weight"], outputs["o"]["error"]) if coded else (outputs["v"]["value"], outputs["v"]["error"])
        )

    def tiles(self, operation: TensorOperation) -> int:
        """Tiles of a matrix, without padding."""
        each = BLOCK // self.lanes
        return operation.length * each - operation.length // operation.blocks * (each - operation.tiles)
