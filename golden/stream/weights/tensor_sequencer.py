"""`tensor_sequencer`: the tensors of each instruction in the order of their use, for all that brings them.

A tensor is told to `tile_weights`, the offsets of its words are requested of `word_offsets`, and its beats and
sensitive weights are read from memory. Each is a stream of its own, as reads are ahead of what takes the beats.
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
from .tile_weights import OffsetKind, Operation, TileWeightsSpec
from .word_offsets import COUNT, FRACTION, WORD

BEAT_NUMBER = Format(32, 0, signed=False)
"""Number of a beat in the stream and its tables, or of beats."""
LONGEST = Format(16, 0, signed=False)


class PassInstruction(NamedTuple):
    """Word of the stream `operation`: what tensors depend on, of an instruction and of the pass that it is for.

    Parameters
    ----------
    kind to fraction, part : int
        Of the instruction, see `golden.stream.instruction.Instruction`; `part` is its table of deltas.
    longest : int
        Tokens of the longest sentence of the pass.
    amount : int
        Multiple of the perturbation that the plus side adds.
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
    def of(cls, one: Instruction, longest: int, amount: int = 0) -> PassInstruction:
        """Take the fields of an instruction."""
        own = {name: getattr(one, name) for name in cls._fields if name in FIELD_BITS}
        return cls(**own, longest=longest, amount=amount)


class Request(NamedTuple):
    """Word of the stream `offsets`: a command of kind `Kind.OFFSETS` of `word_offsets`.

    Parameters
    ----------
    factor, word, fraction, wide, table : int
        As that command has them.
    words : int
        Its `count`; at least 1.
    """

    factor: int
    word: int
    words: int
    fraction: int
    wide: int
    table: int


class Reads(NamedTuple):
    """Word of the stream `beats`: beats of a tensor.

    Parameters
    ----------
    beat : int
        Number of the first one.
    beats : int
        How many there are; at least 1.
    kind, blocks, tiles : int
        Of the tensor, as `Beats` has them: they tell the tile of a beat.
    number : int
        Of the operation in the user's network.
    """

    beat: int
    beats: int
    kind: int
    blocks: int
    tiles: int
    number: int


class CorrectionReads(NamedTuple):
    """Word of the stream `corrections`: sensitive weights of a matrix, 8 bytes each.

    Parameters
    ----------
    beat : int
        Number of their first beat.
    weights : int
        How many there are; at least 1.
    """

    beat: int
    weights: int


class Tensor(NamedTuple):
    """Tensor of an instruction, and what it takes.

    Parameters
    ----------
    operation : Operation
        For `tile_weights`.
    reads : Reads
    request : Request or None
        None where it is not tuned.
    corrections : CorrectionReads or None
        None where there are none.
    """

    operation: Operation
    reads: Reads
    request: Request | None = None
    corrections: CorrectionReads | None = None


@dataclass(frozen=True, kw_only=True)
class TensorSequencerSpec(Spec):
    """Parameters and model of `tensor_sequencer`.

    Parameters
    ----------
    lanes : int
        Inputs and outputs of a tile. Refused: not 8, 16, 32 or 64: tiles divide a block of 64 inputs.
    columns : int
        Inputs and outputs of a tile. Refused: not 4, 8, 16 or 32.
    numbers : int
        Numbers of a perturbation a word, 2 to 64.
    tables : int
        Tables of deltas: 2 for a network that is cut in two parts. Refused: other than 1 and 2: a network has one part,
        or is cut in two.
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
        """Spec of the block that takes the tensors."""
        return TileWeightsSpec(lanes=self.lanes, columns=self.columns, numbers=self.numbers)

    def streams(self) -> dict[str, Stream]:
        """Streams: `operation` in; `tensors`, `beats`, `offsets`, `corrections` out, in the order of the tensors."""
        own = {name: Format(bits, 0, signed=False) for name, bits in FIELD_BITS.items()}
        own |= {"longest": LONGEST, "amount": COEFFICIENT}
        names = [name for name in PassInstruction._fields if name != "part" or self.tables > 1]
        tensor = self.weights.streams()["operation"]
        shared = [one for one in tensor.fields if one.name in Reads._fields]
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
                    tuple(Field(name, own[name]) for name in names),
                    doc="An instruction, and what is of its pass; `part` only with two tables.",
                ),
                "tensors": Stream("out", tensor.fields, doc="A tensor, as `TileWeights` takes it."),
                "beats": Stream(
                    "out",
                    (beat, beats, *shared, Field("number", own["number"], doc="number of the operation")),
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
        """Give the tensors of all instructions."""
        given = inputs["operation"]
        if "part" not in given:
            given = given | {"part": np.zeros_like(given["kind"])}
        found = [tensor for one in rows_of(given, PassInstruction) for tensor in self.tensors(one)]
        streams: dict[str, list[NamedTuple | None]] = {
            "tensors": [one.operation for one in found],
            "beats": [one.reads for one in found],
            "offsets": [one.request for one in found],
            "corrections": [one.corrections for one in found],
        }
        return {
            port: words_of((one for one in rows if one is not None), self.streams()[port].fields, words)
            for port, rows in streams.items()
        }

    def tensors(self, one: PassInstruction) -> Iterator[Tensor]:
        """Tensors of an instruction, in the order of their use."""
        beat = one.beat
        match one.kind:
            case Kind.LINEAR | Kind.NORM:
                if one.biased:
                    yield self._vector(one, TensorKind.VALUES, beat, one.bias_word, Q8_16.fraction)
                    beat += cycles_of(one.outputs, BEAT_VALUES)
                if one.kind == Kind.NORM:
                    yield self._vector(one, TensorKind.FACTORS, beat, one.word, one.fraction)
                else:
                    yield self._matrix(one, beat)
            case Kind.POSITIONS:
                yield from self._rows(one, one.outputs, one.position_word)
            case Kind.ATTENTION if one.rotary:
                yield from self._rows(one, one.width, NO_WORD)

    def _tensor(
        self,
        one: PassInstruction,
        operation: Operation,
        beat: int,
        word: int,
        fraction: int,
        corrections: CorrectionReads | None = None,
    ) -> Tensor:
        """Tensor at a beat, whose offsets begin with a word."""
        needs = self.weights.needs(operation)
        reads = Reads(beat, needs["beats"], operation.kind, operation.blocks, operation.tiles, one.number)
        request = None
        if operation.offsets != OffsetKind.NONE:
            wide = int(operation.kind == TensorKind.VALUES)
            request = Request(one.amount, word, needs["offsets"], fraction, wide, one.part)
        return Tensor(operation, reads, request, corrections)

    def _vector(self, one: PassInstruction, kind: TensorKind, beat: int, word: int, fraction: int) -> Tensor:
        tuned = OffsetKind.NONE if word == NO_WORD else OffsetKind.TILES
        operation = Operation(*self.weights.dequant.beats_of(kind, (one.outputs,)), tuned)
        return self._tensor(one, operation, beat, word, fraction)

    def _matrix(self, one: PassInstruction, beat: int) -> Tensor:
        kind = TensorKind.NF4 if one.coded else TensorKind.MATRIX
        tuned = OffsetKind.CORRECTIONS if one.corrections else OffsetKind.TILES
        operation = Operation(
            *self.weights.dequant.beats_of(kind, (one.outputs, one.inputs)),
            OffsetKind.NONE if one.word == NO_WORD else tuned,
            one.corrections,
        )
        corrections = CorrectionReads(one.correction_beat, one.corrections) if one.corrections else None
        return self._tensor(one, operation, beat, one.word, one.fraction, corrections)

    def _rows(self, one: PassInstruction, values: int, word: int) -> Iterator[Tensor]:
        """Rows of a table, of which `columns` neighbouring ones share their words."""
        beats, words = cycles_of(values, BEAT_VALUES), cycles_of(values, self.lanes)
        tuned = OffsetKind.NONE if word == NO_WORD else OffsetKind.ROW
        for row in range(one.longest):
            tile, line = divmod(row, self.columns)
            operation = Operation(TensorKind.VALUES, beats, offsets=tuned, first=line % self.numbers)
            yield self._tensor(one, operation, one.table + row * beats, word + tile * words, Q8_16.fraction)


def words_of(rows: Iterable[NamedTuple], fields: tuple[Field, ...], words: int = 1 << 30) -> Words:
    """Words of a stream of single numbers from named tuples: the inverse of `rows_of`."""
    chosen = [row._asdict() for _, row in zip(range(words), rows, strict=False)]
    return {one.name: np.array([[row[one.name]] for row in chosen], np.int64).reshape(-1, 1) for one in fields}
