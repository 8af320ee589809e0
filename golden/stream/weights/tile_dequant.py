"""`tile_dequant`: beats of the weight stream to 18-bit weights, in tile order.

Records of NF4 scales and codes, see `machine.layout`, become weights. Tensors with 4 bytes per value keep their values.
A beat with an error marks the rest of its tensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...axi.bus import BEAT
from ...block import Field, Spec, Stream, Supply, Words, described, last_flags, rows_of, words_together
from ...errors import UserError
from ...fixed import Q8_16, Format, Integers
from ...nf4.nf4_dequant import Nf4DequantSpec
from ...rng.perturbation import cycles_of
from ...rng.urng import BIT
from ..frozen_base import BLOCK, WEIGHT, dequantise
from ..machine.core_size import CoreSize
from ..machine.layout import scale_beats

BEAT_CODES = 2 * BEAT
BEAT_VALUES = BEAT // 4
LENGTH_BITS = 24
BLOCKS_BITS = 16
WORD = Format(32, 0, signed=False)


class TensorKind(IntEnum):
    """Kind of a tensor: the order of its values in the stream, and their bits."""

    NF4 = 0
    MATRIX = 1
    VALUES = 2
    FACTORS = 3


MATRICES = (TensorKind.NF4, TensorKind.MATRIX)


class Beats(NamedTuple):
    """Beats of a tensor of a `TensorKind`.

    Parameters
    ----------
    length : int
        Number of a matrix's records, each with 64 inputs of a tile's outputs, or of a vector's beats, each with 4
        values; at least 1.
    blocks, tiles : int
        Number of records of a group of outputs, and of tiles in the group's last record; the rest of that record is
        padding and skipped. At least 1; ignored for a vector.
    """

    kind: int
    length: int
    blocks: int = 1
    tiles: int = 1


@dataclass(frozen=True, kw_only=True)
class TileDequantSpec(Spec):
    """Parameters and model of `tile_dequant`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: 8, 16, 32 or 64, so that tiles divide a block of 64 inputs.
    columns : int
        Outputs of a tile: 4, 8, 16 or 32.
    """

    name: ClassVar[str] = "tile_dequant"
    summary: ClassVar[str] = "stream of NF4 records and values to the weights of tiles, a DSP for each code of a beat"

    lanes: int = 32
    columns: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lanes not in (8, 16, 32, 64):
            raise UserError(f"lanes = {self.lanes} is not 8, 16, 32 or 64")
        if self.columns not in (4, 8, 16, 32):
            raise UserError(f"columns = {self.columns} is not 4, 8, 16 or 32")

    @cached_property
    def dequant(self) -> Nf4DequantSpec:
        return Nf4DequantSpec(lanes=self.width // self.columns, scales=1)

    @property
    def width(self) -> int:
        """Weights per word: two lanes of a tile, but at most the codes of a beat."""
        return min(2 * self.columns, BEAT_CODES)

    @property
    def scale_beats(self) -> int:
        return scale_beats(CoreSize(self.lanes, self.columns))

    @property
    def code_beats(self) -> int:
        return BLOCK * self.columns // BEAT_CODES

    @property
    def value_beats(self) -> int:
        """Beats of a record's weights with 4 bytes each."""
        return BLOCK * self.columns // BEAT_VALUES

    @property
    def latency(self) -> int:
        """Cycles from a beat of codes to its first weights."""
        return self.dequant.latency

    def record_beats(self, kind: int) -> int:
        """Beats of a record; each beat of a vector is a record."""
        nf4 = self.scale_beats + self.code_beats
        return {TensorKind.NF4: nf4, TensorKind.MATRIX: self.value_beats}.get(TensorKind(kind), 1)

    def tile_beats(self, kind: int) -> int:
        """Beats of a matrix's tile, without scales."""
        return (self.code_beats if kind == TensorKind.NF4 else self.value_beats) * self.lanes // BLOCK

    def streams(self) -> dict[str, Stream]:
        flags = Field("last", BIT), Field("error", BIT)
        return described(
            {
                "operation": Stream(
                    "in",
                    self.operation_fields,
                    doc="The next tensor, see `golden.stream.weights.tile_dequant.Beats`. Taken once all beats of "
                    "the tensor before were.",
                ),
                "beats": Stream(
                    "in",
                    (
                        Field(
                            "data",
                            WORD,
                            BEAT_VALUES,
                            doc="of each record scales, then codes; the first one in the lowest bits",
                        ),
                        Field("error", BIT),
                    ),
                    doc="The tensor: of each record scales, then codes, the first one in the lowest bits.",
                ),
                "o": Stream(
                    "out",
                    (
                        Field(
                            "weight",
                            WEIGHT,
                            self.width,
                            doc="lane by lane of a tile, level times scale rounded half to even",
                        ),
                        *flags,
                    ),
                    doc="Weights in the order of the codes; `last` marks a tensor's final word, `error` those from a"
                    " beat in error on.",
                ),
                "v": Stream(
                    "out",
                    (Field("value", Q8_16, BEAT_VALUES, doc="lower 24 bits of each value"), *flags),
                    doc="Lower 24 bits of each value, and the same flags.",
                ),
            },
            {
                "operation.kind": "0 matrix in NF4, 1 matrix of 4 bytes a weight, 2 and 3 vectors",
                "operation.length": "records of 64 inputs x `columns` outputs, or beats of a vector; at least 1",
                "operation.blocks": "records of a group of outputs; at least 1",
                "operation.tiles": "tiles of the last record of a group; 1 to 64 / `lanes`",
                "beats.error": "the beat was not read",
                "o.last": "the tensor's final word",
                "o.error": "this beat or one before it in the tensor was in error",
                "v.last": "the tensor's final word",
                "v.error": "this beat or one before it in the tensor was in error",
            },
        )

    @property
    def operation_fields(self) -> tuple[Field, ...]:
        tiles = (BLOCK // self.lanes).bit_length()
        widths = {"kind": 2, "length": LENGTH_BITS, "blocks": BLOCKS_BITS, "tiles": tiles}
        return tuple(Field(name, Format(widths[name], 0, signed=False)) for name in Beats._fields)

    def beats_of(self, kind: int, shape: tuple[int, ...]) -> Beats:
        """Beats of a matrix, (outputs, inputs), or of a vector."""
        if kind not in MATRICES:
            return Beats(kind, cycles_of(shape[0], BEAT_VALUES))
        blocks = cycles_of(shape[1], BLOCK)
        tiles = cycles_of(shape[1] - BLOCK * (blocks - 1), self.lanes)
        return Beats(kind, cycles_of(shape[0], self.columns) * blocks, blocks, tiles)

    # -- the model ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Tensors whose beats are complete."""
        outputs: dict[str, list[Words]] = {"o": [], "v": []}
        supply = Supply(inputs)
        for tensor in rows_of(inputs["operation"], Beats):
            taken = supply.take({"beats": tensor.length * self.record_beats(tensor.kind)})
            if taken is None:
                break
            data, error = taken["beats"]["data"], taken["beats"]["error"]
            port, values, wrong = self._tensor(tensor, data, np.maximum.accumulate(error))
            name = self.streams()[port].fields[0].name
            outputs[port].append({name: values, "last": last_flags([len(values)]), "error": wrong})
        return {port: words_together(self.streams()[port].fields, parts, words) for port, parts in outputs.items()}

    def cycles(self, inputs: dict[str, Words]) -> int:
        """Cycles from an idle block's first operation to its last input or output, without back-pressure."""
        now = end = 0
        for tensor in rows_of(inputs["operation"], Beats):
            now += 1 + tensor.length * self.record_beats(tensor.kind)
            skipped = (
                (BLOCK // self.lanes - tensor.tiles) * self.tile_beats(tensor.kind) if tensor.kind in MATRICES else 0
            )
            if tensor.kind == TensorKind.NF4:
                entering = tensor.length * self.code_beats - tensor.length // tensor.blocks * skipped
                now += entering * (BEAT_CODES // self.width - 1)
                end = max(end, now - skipped + self.latency)
            end = max(end, now)
        return end

    def _tensor(self, tensor: Beats, data: Integers, error: Integers) -> tuple[str, Integers, Integers]:
        """Output port, words of a tensor without padding tiles, and flags of errors."""
        if tensor.kind not in MATRICES:
            return "v", as_values(data), error
        records = data.reshape(tensor.length, -1, BEAT_VALUES), error.reshape(tensor.length, -1)
        used = np.ones((tensor.length, BLOCK // self.lanes), bool)
        used[tensor.blocks - 1 :: tensor.blocks, tensor.tiles :] = False
        scales = self.scale_beats if tensor.kind == TensorKind.NF4 else 0
        wrong = records[1][:, scales:].reshape(*used.shape, -1)[used]
        if tensor.kind == TensorKind.MATRIX:
            values = as_values(records[0]).reshape(*used.shape, -1)[used]
            return "v", values.reshape(-1, BEAT_VALUES), wrong.reshape(-1, 1)
        weights = self._weights(records[0]).reshape(*used.shape, -1)[used].reshape(-1, self.width)
        return "o", weights, wrong.reshape(-1, 1).repeat(BEAT_CODES // self.width, axis=0)

    def _weights(self, records: Integers) -> Integers:
        """Weights of records, (n, beats, 4)."""
        whole = np.ascontiguousarray(records, "<u4").view(np.uint8).reshape(len(records), -1)
        cut = self.scale_beats * BEAT
        scales = np.ascontiguousarray(whole[:, :cut]).view("<u2")[:, : self.columns].astype(np.int64)
        packed = whole[:, cut:]
        codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(records), BLOCK, self.columns)
        return dequantise(codes, scales[:, None])


def as_values(beats: Integers) -> Integers:
    """Values of beats, (n, 4): the lower 24 bits of each, signed."""
    low = beats & ((1 << Q8_16.width) - 1)
    signed: Integers = low - ((low >> Q8_16.width - 1) << Q8_16.width)
    return signed
