"""`tile_weights`: weights of both sides of a step for the array, from the stream of weights, corrections and offsets.

A tile is dequantised once. It leaves twice: with the offsets of the plus side, then with those of the minus side.
What is added and where is that of `TransformerModel.parameters`. Corrections replace weights, whose code is that of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Words, described, last_flags, rows_of
from ...errors import UserError
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
"""An offset of a value: exact, as deltas and what a step adds are below 16 and a value has 16 fraction bits."""
TILE_OFFSET = Format(WEIGHT.width + 1, 0)
"""An offset of a tile's weight: saturated, as the sum is saturated to one bit less."""


class OffsetKind(IntEnum):
    """Owner of the words of a tensor's offsets."""

    NONE = 0
    TILES = 1
    """A tile, or as many values as a tile has weights."""
    CORRECTIONS = 2
    """Corrections for a beat, as many as it has weights: the others are not tuned."""
    ROW = 3
    """Values of a row for a tile, as many as it has lanes, as the row is one of a matrix."""


class Operation(NamedTuple):
    """Word of the stream `operation`: a tensor.

    Parameters
    ----------
    kind, length, blocks, tiles : int
        As `Beats` has them.
    offsets : int
        `OffsetKind`.
    corrections : int
        Corrections of a matrix.
    first : int
        Number that the first value of a row takes.
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
        """Whether it is one."""
        return self.kind in MATRICES

    @property
    def beats(self) -> Beats:
        """Beats that it takes of the stream."""
        return Beats(*self[: len(Beats._fields)])


FIELD_MEANINGS = {
    "operation.kind": "0 matrix in NF4, 1 matrix of 4 bytes a weight, 2 vector of 24 bits, 3 vector of 18 bits",
    "corrections.error": "it was not read",
    "w.last": "the final beat of a side",
    "w.error": "something was wrong in this tile, or in one before it in the tensor",
    "v.last": "the tensor's final word",
    "v.error": "a beat of the tensor was in error",
}
"""Meaning of fields whose name does not tell it, by port and field."""


@dataclass(frozen=True, kw_only=True)
class TileWeightsSpec(Spec):
    """Parameters and model of `tile_weights`.

    Parameters
    ----------
    lanes : int
        Inputs and outputs of a tile. Refused: not 8, 16, 32 or 64: tiles divide a block of 64 inputs.
    columns : int
        Inputs and outputs of a tile. Refused: not 4, 8, 16 or 32.
    numbers : int
        Numbers of a perturbation a word: parameter j of a word takes number ``j mod numbers``, 2 to 64.
    """

    name: ClassVar[str] = "tile_weights"
    summary: ClassVar[str] = "weights of both sides of a step: stream of weights, sparse corrections, offsets of words"

    lanes: int = 32
    columns: int = 16
    numbers: int = 31

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.numbers <= 64:
            raise UserError(f"numbers = {self.numbers} is not in 2 to 64")
        _ = self.dequant

    @cached_property
    def dequant(self) -> TileDequantSpec:
        """Spec of the part that takes the beats."""
        return TileDequantSpec(lanes=self.lanes, columns=self.columns)

    @property
    def width(self) -> int:
        """Weights a beat: two lanes of a tile."""
        return 2 * self.columns

    @property
    def weights(self) -> int:
        """Weights of a tile."""
        return self.lanes * self.columns

    @property
    def tile_beats(self) -> int:
        """Beats of a tile of one side."""
        return self.lanes // 2

    @property
    def latency(self) -> int:
        """Cycles from the operation of a matrix in NF4 without corrections to its first beat, in an idle block.

        The operation, scales, words of weights of a tile through the dequantisers, the tile's end, and its reading.
        """
        return 1 + self.dequant.scale_beats + self.fill_cycles - 1 + self.dequant.latency + 2 + 2

    @property
    def fill_cycles(self) -> int:
        """Cycles in which a tile's codes become weights."""
        return self.weights // self.dequant.width

    @property
    def keeps_up(self) -> bool:
        """Whether a tile is filled while the one before leaves, so that there is a beat a cycle."""
        return self.fill_cycles + self.dequant.scale_beats + 2 <= self.lanes

    def streams(self) -> dict[str, Stream]:
        """Streams: `operation`, `beats`, `corrections`, `offsets` in; `w` gives tiles of both sides, `v` vectors."""
        number = Format((self.numbers - 1).bit_length(), 0, signed=False)
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
                    doc="The next tensor, as `golden.stream.weights.tile_weights.Operation` describes it.",
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
        """Two tiles of each side; a lane of a beat has a memory of its own, as a correction writes one alone."""
        return (MemoryShape("tiles", 2 * self.tile_beats, WEIGHT.width, count=2 * self.width),)

    # -- the model ---------------------------------------------------------------------------------------------------

    def needs(self, operation: Operation) -> dict[str, int]:
        """Words of each stream that a tensor takes."""
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
        """Take tensors as long as all that belongs to one is there."""
        fields = {port: self.streams()[port].fields for port in ("w", "v")}
        found: dict[str, list[Words]] = {
            port: [{one.name: np.zeros((0, one.lanes), np.int64) for one in fields[port]}] for port in fields
        }
        used = dict.fromkeys(("beats", "corrections", "offsets"), 0)
        for operation in rows_of(inputs["operation"], Operation):
            ends = {port: used[port] + count for port, count in self.needs(operation).items()}
            if any(end > len(next(iter(inputs[port].values()))) for port, end in ends.items()):
                break
            own = {
                port: {name: column[used[port] : end] for name, column in inputs[port].items()}
                for port, end in ends.items()
            }
            found["w" if operation.matrix else "v"].append(
                (self._matrix if operation.matrix else self._vector)(operation, own)
            )
            used = ends
        return {
            port: {one.name: np.concatenate([part[one.name] for part in parts])[:words] for one in fields[port]}
            for port, parts in found.items()
        }

    def _vector(self, operation: Operation, own: dict[str, Words]) -> Words:
        """Values of both sides: narrowed to 18 bits where they are factors."""
        form = WEIGHT if operation.kind == TensorKind.FACTORS else Q8_16
        values, error = self._dequantised(operation, own["beats"])
        place, first, step, each = np.arange(values.size), 0, 1, self.weights
        if operation.offsets == OffsetKind.ROW:
            first, step, each = operation.first, self.columns, self.lanes
        sides = {}
        for side in ("plus", "minus"):
            moved = values.reshape(-1)
            if len(own["offsets"][side]):
                moved = moved + own["offsets"][side][place // each, (first + step * (place % each)) % self.numbers]
            sides[side] = moved.clip(form.minimum, form.maximum).reshape(values.shape)
        return sides | {"last": last_flags([len(values)]), "error": error}

    def _matrix(self, operation: Operation, own: dict[str, Words]) -> Words:
        """Tiles of both sides, one behind the other."""
        words, error = self._dequantised(operation, own["beats"])
        tiles = words.reshape(-1, self.weights)
        error = error.reshape(len(tiles), -1)[:, -1]
        if operation.kind == TensorKind.MATRIX:
            tiles = narrow(tiles, WEIGHT, WEIGHT, overflow=Overflow.WRAP)
        both = np.stack([tiles, tiles], axis=1)
        sides = [own["offsets"][side] for side in ("plus", "minus")]
        wrong = self._correct(both, operation, own["corrections"], sides)
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

    def _correct(self, both: Integers, operation: Operation, given: Words, sides: list[Integers]) -> Integers:
        """Put corrections into tiles of both sides; say in which tile one is found to be wrong, and left out."""
        wrong = np.zeros(len(both), np.int64)
        tile, top = 0, -1
        for number, (place, value, error) in enumerate(
            zip(*(given[name][:, 0].tolist() for name in ("place", "value", "error")), strict=True)
        ):
            # those beyond the tensor's end belong to its last tile
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

    def _dequantised(self, operation: Operation, beats: Words) -> tuple[Integers, Integers]:
        """Words of weights or values of one tensor, and which are in error."""
        given = {name: np.array([[one]]) for name, one in operation.beats._asdict().items()}
        made = self.dequant.run({"operation": given, "beats": beats}, len(beats["data"]) * BEAT_CODES)
        coded = operation.kind == TensorKind.NF4
        return (made["o"]["weight"], made["o"]["error"]) if coded else (made["v"]["value"], made["v"]["error"])

    def tiles(self, operation: Operation) -> int:
        """Tiles of a matrix, without those behind its inputs."""
        each = BLOCK // self.lanes
        return operation.length * each - operation.length // operation.blocks * (each - operation.tiles)
