"""`tensor_sequencer`: tensors of each instruction in order of use, for all blocks of the weight path.

Each kind of request has its own stream, because reads must precede the use of their beats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ...block import Field, Spec, Stream, Words, described, rows_of
from ...errors import UserError
from ...fixed import Q8_16, Format
from ...rng.perturbation import cycles_of
from ...rng.urng import BIT
from ...zo.coefficient import COEFFICIENT
from ..instruction import FIELD_BITS, NO_WORD, Instruction, Kind
from .tile_dequant import BEAT_VALUES, LENGTH_BITS, TensorKind
from .tile_weights import OffsetKind, TensorOperation, TileWeightsSpec
from .word_offsets import COUNT, FRACTION, WORD

BEAT_NUMBER = Format(32, 0, signed=False)
"""Format of a beat's number in the stream and its tables, or of a number of beats."""
LONGEST = Format(16, 0, signed=False)


class PassInstruction(NamedTuple):
    """Word of the stream `operation`: fields of an `Instruction`, and numbers of its pass.

    `part` selects the table of deltas. The longest sentence has `longest` tokens. The plus side adds `amount` times the
    perturbation.
    """

    kind: int
    coded: int
    biased: int
    rotary: int
    number: int
    inputs: int
    outputs: int
    width: int
    word: int
    bias_word: int
    position_word: int
    beat: int
    table: int
    corrections: int
    correction_beat: int
    fraction: int
    longest: int
    amount: int = 0
    part: int = 0

    @classmethod
    def of(cls, instruction: Instruction, longest: int, amount: int = 0) -> PassInstruction:
        fields = {name: getattr(instruction, name) for name in cls._fields if name in FIELD_BITS}
        return cls(**fields, longest=longest, amount=amount)


class Request(NamedTuple):
    """Word of the stream `offsets`: an `OFFSETS` command of `word_offsets` for `words` words, at least 1."""

    factor: int
    word: int
    words: int
    fraction: int
    wide: int
    table: int


class TensorReads(NamedTuple):
    """Word of the stream `beats`: first beat and number of beats of a tensor, at least 1, for operation `number`.

    `kind`, `blocks` and `tiles` of the tensor's `Beats` determine the tile of a beat.
    """

    beat: int
    beats: int
    kind: int
    blocks: int
    tiles: int
    number: int


class CorrectionReads(NamedTuple):
    """Word of the stream `corrections`: first beat and number of a matrix's sensitive weights, 8 bytes each."""

    beat: int
    weights: int


class Tensor(NamedTuple):
    """Tensor of an instruction for `tile_weights`, its reads, and its requests: None for a frozen tensor or without
    sensitive weights.
    """

    operation: TensorOperation
    reads: TensorReads
    request: Request | None = None
    corrections: CorrectionReads | None = None


@dataclass(frozen=True, kw_only=True)
class TensorSequencerSpec(Spec):
    """Parameters and model of `tensor_sequencer`.

    Parameters
    ----------
    lanes : int
        Inputs of a tile: 8, 16, 32 or 64, so that tiles divide a block of 64 inputs.
    columns : int
        Outputs of a tile: 4, 8, 16 or 32.
    numbers : int
        Perturbation numbers per word, 2 to 64.
    tables : int
        Tables of deltas: 1, or 2 for networks cut in two.
    """

    name: ClassVar[str] = "tensor_sequencer"
    summary: ClassVar[str] = "tensors of each instruction: their beats, offsets and sensitive weights, in order of use"

    lanes: int = 32
    columns: int = 16
    numbers: int = 31
    tables: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.tables <= 2:
            raise UserError(f"tables = {self.tables} is not 1 or 2: a network has one part, or is cut in two")
        _ = self.weights

    @cached_property
    def weights(self) -> TileWeightsSpec:
        return TileWeightsSpec(lanes=self.lanes, columns=self.columns, numbers=self.numbers)

    def streams(self) -> dict[str, Stream]:
        formats = {name: Format(bits, 0, signed=False) for name, bits in FIELD_BITS.items()}
        formats |= {"longest": LONGEST, "amount": COEFFICIENT}
        names = [name for name in PassInstruction._fields if name != "part" or self.tables > 1]
        tensor = self.weights.streams()["operation"]
        shared = [item for item in tensor.fields if item.name in TensorReads._fields]
        request = {"factor": COEFFICIENT, "word": WORD, "words": COUNT, "fraction": FRACTION, "wide": BIT}
        if self.tables > 1:
            request["table"] = BIT
        beat, beats = (Field(name, BEAT_NUMBER) for name in ("beat", "beats"))
        weights = Field(
            "weights", Format(LENGTH_BITS, 0, signed=False), doc="number of their first beat, and how many there are"
        )
        return described(
            {
                "operation": Stream(
                    "in",
                    tuple(Field(name, formats[name]) for name in names),
                    doc="An instruction, and what is of its pass; `part` only with two tables.",
                ),
                "tensors": Stream("out", tensor.fields, doc="A tensor, as `TileWeights` takes it."),
                "beats": Stream(
                    "out",
                    (beat, beats, *shared, Field("number", formats["number"], doc="number of the operation")),
                    doc="Its beats in memory, what tells their tiles, and the number of the operation.",
                ),
                "offsets": Stream(
                    "out",
                    tuple(Field(name, form) for name, form in request.items()),
                    doc="Command of `WordOffsets` for its words, where it is tuned; `table` only with two.",
                ),
                "corrections": Stream("out", (beat, weights), doc="Its sensitive weights, where it has some."),
            },
            {
                "operation.kind": "16 of its fields",
                "operation.fraction": "16 of its fields",
                "operation.longest": "tokens of the longest sentence of the pass",
                "operation.amount": "multiple of the perturbation on the plus side",
                "beats.beat": "number of the first one behind the header, and how many there are",
                "beats.beats": "number of the first one behind the header, and how many there are",
                "beats.kind": "of the tensor: they tell the tile of a beat",
                "beats.blocks": "of the tensor: they tell the tile of a beat",
                "beats.tiles": "of the tensor: they tell the tile of a beat",
                "corrections.beat": "number of their first beat, and how many there are",
            },
        )

    # -- the model ---------------------------------------------------------------------------------------------------

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        operations = inputs["operation"]
        if "part" not in operations:
            operations = operations | {"part": np.zeros_like(operations["kind"])}
        tensors = [tensor for item in rows_of(operations, PassInstruction) for tensor in self.tensors(item)]
        streams: dict[str, list[NamedTuple | None]] = {
            "tensors": [item.operation for item in tensors],
            "beats": [item.reads for item in tensors],
            "offsets": [item.request for item in tensors],
            "corrections": [item.corrections for item in tensors],
        }
        return {
            port: words_of((item for item in rows if item is not None), self.streams()[port].fields, words)
            for port, rows in streams.items()
        }

    def tensors(self, op: PassInstruction) -> Iterator[Tensor]:
        """Tensors of an instruction, in order of use."""
        beat = op.beat
        match op.kind:
            case Kind.LINEAR | Kind.NORM:
                if op.biased:
                    yield self._vector(op, TensorKind.VALUES, beat, op.bias_word, Q8_16.fraction)
                    beat += cycles_of(op.outputs, BEAT_VALUES)
                if op.kind == Kind.NORM:
                    yield self._vector(op, TensorKind.FACTORS, beat, op.word, op.fraction)
                else:
                    yield self._matrix(op, beat)
            case Kind.POSITIONS:
                yield from self._rows(op, op.outputs, op.position_word)
            case Kind.ATTENTION if op.rotary:
                yield from self._rows(op, op.width, NO_WORD)

    def _tensor(
        self,
        op: PassInstruction,
        operation: TensorOperation,
        beat: int,
        word: int,
        fraction: int,
        corrections: CorrectionReads | None = None,
    ) -> Tensor:
        """Tensor at a beat; its offsets begin at perturbation word `word`."""
        needs = self.weights.needs(operation)
        reads = TensorReads(beat, needs["beats"], operation.kind, operation.blocks, operation.tiles, op.number)
        request = None
        if operation.offsets != OffsetKind.NONE:
            wide = int(operation.kind == TensorKind.VALUES)
            request = Request(op.amount, word, needs["offsets"], fraction, wide, op.part)
        return Tensor(operation, reads, request, corrections)

    def _vector(self, op: PassInstruction, kind: TensorKind, beat: int, word: int, fraction: int) -> Tensor:
        tuned = OffsetKind.NONE if word == NO_WORD else OffsetKind.TILES
        operation = TensorOperation(*self.weights.dequant.beats_of(kind, (op.outputs,)), tuned)
        return self._tensor(op, operation, beat, word, fraction)

    def _matrix(self, op: PassInstruction, beat: int) -> Tensor:
        kind = TensorKind.NF4 if op.coded else TensorKind.MATRIX
        tuned = OffsetKind.CORRECTIONS if op.corrections else OffsetKind.TILES
        operation = TensorOperation(
            *self.weights.dequant.beats_of(kind, (op.outputs, op.inputs)),
            OffsetKind.NONE if op.word == NO_WORD else tuned,
            op.corrections,
        )
        corrections = CorrectionReads(op.correction_beat, op.corrections) if op.corrections else None
        return self._tensor(op, operation, beat, op.word, op.fraction, corrections)

    def _rows(self, op: PassInstruction, values: int, word: int) -> Iterator[Tensor]:
        """Rows of a table of positions; `columns` neighbouring rows share their perturbation words."""
        beats, words = cycles_of(values, BEAT_VALUES), cycles_of(values, self.lanes)
        tuned = OffsetKind.NONE if word == NO_WORD else OffsetKind.ROW
        for row in range(op.longest):
            tile, line = divmod(row, self.columns)
            operation = TensorOperation(TensorKind.VALUES, beats, offsets=tuned, first=line % self.numbers)
            yield self._tensor(op, operation, op.table + row * beats, word + tile * words, Q8_16.fraction)


def words_of(rows: Iterable[NamedTuple], fields: tuple[Field, ...], words: int = 1 << 30) -> Words:
    """Words of a stream of single numbers from named tuples, at most `words`: the inverse of `rows_of`."""
    chosen = [row._asdict() for _, row in zip(range(words), rows, strict=False)]
    return {item.name: np.array([[row[item.name]] for row in chosen], np.int64).reshape(-1, 1) for item in fields}
