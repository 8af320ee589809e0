"""Instruction of the streaming core: one step of a transformer in fixed fields, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, get_args

from ...axi.bus import BEAT
from ...errors import UserError
from ...fixed import Q8_16, Format
from ...transformer.blocks import ActivationKind, PoolKind
from ..attention import Q6_12
from ..forward import WEIGHT_BITS
from ..norms import LARGEST_HIDDEN, Q11_16
from ..partial_sums import MOST_INPUTS, TOTAL
from ..words import sensitive_word
from .core_size import CoreSize
from .layout import matrix_beats, vector_beats

FORMATS = (Q8_16, Q11_16, Q6_12)
"""Formats of results, by number."""
ACTIVATIONS: tuple[ActivationKind, ...] = get_args(ActivationKind)
"""Activations, by number from 1 on; 0 is none."""
POOLS: tuple[PoolKind, ...] = get_args(PoolKind)
"""Pools, by number."""
INSTRUCTION_BEATS = 5
NO_WORD = (1 << 32) - 1
"""Number of the word of a tensor that is not tuned."""
_ROW_BITS = 23


def shifted_format(form: Format, shift: int) -> Format:
    """Format of as many bits, shifted to the right."""
    return Format(form.integer + shift, form.fraction - shift)


class Kind(IntEnum):
    """What an instruction does."""

    LINEAR = 1
    ATTENTION = 2
    NORM = 3
    ACTIVATION = 4
    GATE = 5
    ADD = 6
    POSITIONS = 7
    POOL = 8
    UNIT = 9


class Join(IntEnum):
    """What a linear layer's results pass at last."""

    NONE = 0
    ADD = 1
    GATE = 2
    POSITIONS = 3


class Buffer(NamedTuple):
    """Rows of a token of a side: in the wide memory or that of activations.

    Parameters
    ----------
    wide : bool
    first : int
    """

    wide: bool
    first: int

    @property
    def bits(self) -> int:
        """As a field."""
        return int(self.wide) << _ROW_BITS | self.first

    @classmethod
    def of(cls, bits: int) -> Buffer:
        """Read a field."""
        return cls(bool(bits >> _ROW_BITS), bits & ((1 << _ROW_BITS) - 1))


_SHIFTS = (
    "shift",
    "passed_shift",
    "result_shift",
    "source_shift",
    "second_shift",
    "third_shift",
    "other_shift",
)
FIELD_BITS = {
    "kind": 8,
    "activation": 4,
    "join": 4,
    "form": 2,
    "pool": 2,
    "coded": 1,
    "biased": 1,
    "centred": 1,
    "causal": 1,
    "rotary": 1,
    "last": 1,
    "number": 16,
    "inputs": 24,
    "outputs": 24,
    "source": 24,
    "second": 24,
    "third": 24,
    "other": 24,
    "destination": 24,
    "shift": 5,
    "passed_shift": 5,
    "result_shift": 5,
    "source_shift": 5,
    "second_shift": 5,
    "third_shift": 5,
    "other_shift": 5,
    "heads": 12,
    "key_heads": 12,
    "width": 16,
    "word": 32,
    "bias_word": 32,
    "position_word": 32,
    "beat": 32,
    "table": 32,
    "positions": 24,
    "corrections": 24,
    "correction_beat": 32,
    "fraction": 6,
    "factor": 24,
    "factor_fraction": 8,
    "least": 48,
}
"""Bits of each field, from the lowest on."""


@dataclass(frozen=True)
class Instruction:
    """Step of a transformer; fields that its kind does not have are 0.

    Parameters
    ----------
    kind : int
        `Kind`.
    activation, join : int
        What a linear layer's results pass: a number of `ACTIVATIONS`, or the operation itself; `Join`.
    form : int
        Format of a linear layer's sums, before what they pass: a place of `FORMATS`.
    pool : int
        A place of `POOLS`.
    coded, biased, centred, causal, rotary, last : int
        1 for a matrix in NF4; a bias; layer norm; causal attention; rotary positions; the instruction of the logits.
    number : int
        Of the operation in the user's network.
    inputs, outputs : int
        Features.
    source, second, third, other, destination : int
        `Buffer`: what it reads (queries, keys, values), what joins, and where the result goes.
    shift, passed_shift, result_shift : int
        Places to the right by which a linear layer's sums, what an activation makes of them, and the result are shifted
        against the formats that such values have.
    source_shift, second_shift, third_shift, other_shift : int
        The same for what it reads.
    heads, key_heads, width : int
        Of attention.
    word, bias_word, position_word : int
        First word of matrix or factors, bias, positions; `NO_WORD` where they are not tuned.
    beat : int
        First beat in the stream: of the bias, behind which matrix or factors stand.
    table, positions : int
        First beat of the table of positions or rotations, and how many rows of positions there are.
    corrections, correction_beat : int
        Sensitive weights of a matrix, which alone are perturbed where there are some, and their first beat.
    fraction : int
        Fraction bits of weights or factors: the shift of the sums.
    factor, factor_fraction : int
        Of attention the factor of its scores, of a norm the constant 1 / features, and its fraction bits.
    least : int
        Sum of squares that a norm adds for its eps.
    """

    kind: int
    activation: int = 0
    join: int = 0
    form: int = 0
    pool: int = 0
    coded: int = 0
    biased: int = 0
    centred: int = 0
    causal: int = 0
    rotary: int = 0
    last: int = 0
    number: int = 0
    inputs: int = 0
    outputs: int = 0
    source: int = 0
    second: int = 0
    third: int = 0
    other: int = 0
    destination: int = 0
    shift: int = 0
    passed_shift: int = 0
    result_shift: int = 0
    source_shift: int = 0
    second_shift: int = 0
    third_shift: int = 0
    other_shift: int = 0
    heads: int = 0
    key_heads: int = 0
    width: int = 0
    word: int = NO_WORD
    bias_word: int = NO_WORD
    position_word: int = NO_WORD
    beat: int = 0
    table: int = 0
    positions: int = 0
    corrections: int = 0
    correction_beat: int = 0
    fraction: int = 0
    factor: int = 0
    factor_fraction: int = 0
    least: int = 0

    def encode(self) -> bytes:
        """Pack the fields into `INSTRUCTION_BEATS` beats, the first field lowest.

        Raises
        ------
        UserError
            If a value does not fit its field.
        """
        packed = shift = 0
        for name, bits in FIELD_BITS.items():
            value = int(getattr(self, name))
            if not 0 <= value < 1 << bits:
                raise UserError(f"{name} = {value} has more than the {bits} bits of its field")
            packed |= value << shift
            shift += bits
        return packed.to_bytes(INSTRUCTION_BEATS * BEAT, "little")

    @classmethod
    def decode(cls, data: bytes) -> Instruction:
        """Unpack the fields."""
        packed, values = int.from_bytes(data, "little"), {}
        for name, bits in FIELD_BITS.items():
            values[name] = packed & ((1 << bits) - 1)
            packed >>= bits
        return cls(**values)


@dataclass(frozen=True)
class Limits:
    """What an instruction is checked against.

    Parameters
    ----------
    size : CoreSize
    capacity : int
        Tokens of all sides that are in the buffers at once.
    words : int
        Words of a perturbation.
    stream_beats, beats : int
        Of the stream, and with the tables behind it.
    """

    size: CoreSize
    capacity: int
    words: int
    stream_beats: int
    beats: int

    def reasons(self, one: Instruction) -> list[str]:
        """List what is wrong with an instruction."""
        kinds = {kind.value for kind in Kind}
        if one.kind not in kinds:
            return [f"kind {one.kind} is unknown"]
        kind = Kind(one.kind)
        found = []
        if one.activation > len(ACTIVATIONS) or (kind is Kind.ACTIVATION and not one.activation):
            found.append(f"activation {one.activation} is unknown")
        if one.form >= len(FORMATS) or one.pool >= len(POOLS):
            found.append(f"format {one.form} or pool {one.pool} is unknown")
        if wrong := [name for name in _SHIFTS if getattr(one, name) > Q6_12.fraction]:
            found.append(f"{wrong[0]} = {getattr(one, wrong[0])}: a shift is at most {Q6_12.fraction}")
        if not one.inputs or not one.outputs:
            found.append(f"{one.inputs} inputs and {one.outputs} outputs: a size is 0")
        if kind is not Kind.LINEAR and one.inputs != one.outputs:
            found.append(f"{one.inputs} inputs are not {one.outputs} outputs")
        if one.join > Join.POSITIONS or (kind is not Kind.LINEAR and one.join):
            found.append(f"join {one.join} is unknown to {kind.name.lower()}")
        found += self._attention(one) if kind is Kind.ATTENTION else []
        if kind is Kind.NORM and one.inputs > LARGEST_HIDDEN:
            found.append(f"a norm has at most {LARGEST_HIDDEN} features, not {one.inputs}")
        if kind in (Kind.LINEAR, Kind.ATTENTION) and one.inputs > MOST_INPUTS:
            found.append(f"sums of {TOTAL.width} bits are exact for at most {MOST_INPUTS} inputs, not {one.inputs}")
        if one.fraction > WEIGHT_BITS:
            found.append(f"weights have at most {WEIGHT_BITS} fraction bits, not {one.fraction}")
        return found or [*self._buffers(one), *self._addresses(one), *self._words(one)]

    @staticmethod
    def _attention(one: Instruction) -> list[str]:
        if not one.heads or not one.key_heads or one.heads % one.key_heads or one.heads * one.width != one.inputs:
            return [f"{one.heads} heads of {one.width} features for {one.key_heads} of keys do not make {one.inputs}"]
        return [f"rotations of a head of {one.width} features"] if one.rotary and one.width % 2 else []

    def _rows(self, buffer: Buffer, features: int) -> range:
        width = self.size.columns if buffer.wide else self.size.lanes
        return range(buffer.first, buffer.first + -(-features // width))

    def _buffers(self, one: Instruction) -> list[str]:
        """Rows outside the memories, and results over what is still read."""
        found, result = [], Buffer.of(one.destination)
        written = self._rows(result, one.outputs)
        for name, features in _read(one).items():
            buffer = Buffer.of(getattr(one, name))
            rows = self._rows(buffer, features)
            found += self._outside(name, buffer, rows)
            overlap = buffer.wide == result.wide and rows.start < written.stop and written.start < rows.stop
            over = name in _OVER.get(Kind(one.kind), ("source",))
            if overlap and not (over and rows == written):
                found.append(f"the result in rows {_text(written)} overlaps {name} in rows {_text(rows)}")
        return found + self._outside("destination", result, written)

    def _outside(self, name: str, buffer: Buffer, rows: range) -> list[str]:
        most = self.size.wide_rows if buffer.wide else self.size.rows
        if rows.stop * self.capacity <= most:
            return []
        return [f"{name} in rows {_text(rows)} of {self.capacity} tokens is outside a memory of {most} rows"]

    def _addresses(self, one: Instruction) -> list[str]:
        beats = vector_beats(one.outputs) * one.biased
        if one.kind == Kind.LINEAR:
            beats += matrix_beats(self.size, one.outputs, one.inputs, bool(one.coded))
        if one.kind == Kind.NORM:
            beats += vector_beats(one.outputs)
        found = []
        if one.beat + beats > self.stream_beats:
            found.append(f"beats {one.beat} to {one.beat + beats - 1} are outside a stream of {self.stream_beats}")
        rows = one.positions * vector_beats(one.outputs)
        if one.rotary:
            rows = self.size.sums * vector_beats(one.width)
        if rows and not self.stream_beats <= one.table <= one.table + rows <= self.beats:
            found.append(f"a table in beats {one.table} to {one.table + rows - 1} is outside {self.beats}")
        more = -(-8 * one.corrections // BEAT)
        if more and not self.stream_beats <= one.correction_beat <= one.correction_beat + more <= self.beats:
            found.append(
                f"{one.corrections} sensitive weights from beat {one.correction_beat} on are outside {self.beats}"
            )
        if (one.kind == Kind.POSITIONS or one.join == Join.POSITIONS) and not one.positions:
            found.append("it adds positions, of which there are none")
        return found

    def _words(self, one: Instruction) -> list[str]:
        """Words of tensors that are tuned."""
        width = self.size.multipliers
        vector = -(-one.outputs // width)
        tiles = -(-one.outputs // self.size.columns) * -(-one.inputs // self.size.lanes)
        rows = -(-one.positions // self.size.columns) * -(-one.outputs // self.size.lanes)
        if one.corrections:
            tiles = -(-one.corrections // sensitive_word(self.size.columns))
        counts = {"word": tiles if one.kind == Kind.LINEAR else vector, "bias_word": vector, "position_word": rows}
        return [
            f"{name} = {getattr(one, name)} and {count} words are outside {self.words}"
            for name, count in counts.items()
            if getattr(one, name) != NO_WORD and getattr(one, name) + count > self.words
        ]


_OVER = {Kind.LINEAR: ("other",), Kind.GATE: ("source", "second"), Kind.ADD: ("source", "second")}
"""Buffers over which a result may be written, by kind; of all other kinds it is the first that they read."""


def _read(one: Instruction) -> dict[str, int]:
    """Fields of the buffers that an instruction reads, and the features of each."""
    found = {"source": one.inputs}
    if one.kind == Kind.ATTENTION:
        found |= dict.fromkeys(("second", "third"), one.key_heads * one.width)
    if one.kind in (Kind.GATE, Kind.ADD):
        found["second"] = one.inputs
    if one.join in (Join.ADD, Join.GATE):
        found["other"] = one.outputs
    return found


def _text(rows: range) -> str:
    return f"{rows.start} to {rows.stop - 1}"
