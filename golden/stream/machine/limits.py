"""Limits of the streaming core: one list of instruction checks for Python and the RTL.

A check refuses an instruction if it applies and ``base + factor * count`` exceeds, or differs from, a limit. Terms are
integers here and signals in the RTL, so checks use only sums, shifts and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

from ...axi.bus import BEAT
from ...fixed import Q8_16
from ..array.partial_sums import MOST_INPUTS, TOTAL
from ..attention import HALVES, MOST_WIDTH
from ..forward import SHIFT, WEIGHT_BITS
from ..frozen_base import BLOCK
from ..instruction import ACTIVATIONS, NO_WORD, POOLS, ROW_BITS, SHIFTS, Instruction, Join, Kind
from ..norms import LARGEST_HIDDEN, Q11_16
from ..softmax.attention_softmax import FRACTIONS as FACTOR_FRACTIONS
from ..values.requantize import FORMATS
from ..values.value_operation import LARGEST_VECTOR, SQUARED
from ..words import sensitive_word
from .core_size import CoreSize
from .layout import record_beats

MOST_FEATURES = min(LARGEST_VECTOR, LARGEST_HIDDEN)
"""Largest number of features of any core."""
MOST_SHIFT = SHIFT.maximum
"""Largest shift of activations."""
MOST_FRACTION = WEIGHT_BITS - 1
"""Largest number of fraction bits of weights."""
_WIDE = FORMATS.index(Q11_16)


class Reason(IntEnum):
    """Reason of a program's refusal."""

    NONE = 0
    MAGIC = 1
    VERSION = 2
    CORE = 3
    LENGTH = 4
    EMPTY = 5
    CAPACITY = 6
    KIND = 7
    ACTIVATION = 8
    FORMAT = 9
    SHIFT = 10
    SIZE = 11
    FEATURES = 12
    SUMS = 13
    JOIN = 14
    HEADS = 15
    ROTATION = 16
    SCALE = 17
    NORM = 18
    FRACTION = 19
    OVERLAP = 20
    ROWS = 21
    BEATS = 22
    TABLE = 23
    CORRECTIONS = 24
    POSITIONS = 25
    WORDS = 26
    LAST = 27
    BUS = 28
    NO_PROGRAM = 29
    NO_OPERATION = 30
    CUT = 31


class LimitCheck(NamedTuple):
    """Refusal of an instruction if ``base + factor * count`` exceeds a limit, or, with `equal`, differs from it.

    `text` makes the message, of integers.
    """

    reason: Reason
    text: Callable[[], str]
    applies: Any
    base: Any = 1
    factor: Any = 0
    count: Any = 0
    limit: Any = 0
    equal: bool = False


@dataclass(frozen=True)
class Counts:
    """Numbers of a program that its checks need for every instruction.

    `capacity` is the number of tokens of all sides in the buffers at once. `words` counts the perturbation words of the
    whole network, or of the part before a cut; `behind` counts them after the cut. `beats` includes the tables.
    """

    capacity: Any
    words: Any
    behind: Any
    stream_beats: Any
    beats: Any


@dataclass(frozen=True)
class Derived:
    """Numbers computed from an instruction's fields, for several checks.

    `keys` counts the features of all key heads, `records` and `tiles` count a matrix's records and tiles, `table_tiles`
    the tiles of a table of positions. `remainder` is the number of heads modulo the number of key heads.
    """

    keys: Any
    records: Any
    tiles: Any
    table_tiles: Any
    remainder: Any


def whole(number: Any, size: int) -> Any:
    """Number divided by `size`, rounded up; for a signal `size` is a power of two."""
    if isinstance(number, int):
        return -(-number // size)
    assert size.bit_count() == 1
    return (number + (size - 1)) >> (size.bit_length() - 1)


def factors(instruction: Any, size: CoreSize) -> dict[str, tuple[Any, Any]]:
    columns = size.columns
    return {
        "keys": (instruction.key_heads, instruction.width),
        "records": (whole(instruction.outputs, columns), whole(instruction.inputs, BLOCK)),
        "tiles": (whole(instruction.outputs, columns), whole(instruction.inputs, size.lanes)),
        "table_tiles": (whole(instruction.positions, columns), whole(instruction.outputs, size.lanes)),
    }


class _Rows(NamedTuple):
    """Rows of a buffer: flag of the wide memory, first row, end."""

    wide: Any
    first: Any
    stop: Any


@dataclass(frozen=True)
class Limits:
    """Limits of a core and a program; lanes and columns are powers of two.

    Parameters
    ----------
    choose : callable
        Multiplexer: condition, value if true, value if false.
    hold : callable
        Returns a term for use by later terms; in the RTL through a register.
    features : int
        Largest number of values of a bias, a row of positions, and a norm.
    """

    size: CoreSize
    counts: Counts
    choose: Callable[[Any, Any, Any], Any] = lambda condition, then, otherwise: then if condition else otherwise
    hold: Callable[[Any], Any] = lambda term: term
    features: int = MOST_FEATURES

    def refusal(self, op: Instruction) -> tuple[Reason, str] | None:
        """Reason and message of the first check that refuses an instruction, or None."""
        products = {name: first * second for name, (first, second) in factors(op, self.size).items()}
        derived = Derived(**products, remainder=op.heads % op.key_heads if op.key_heads else 0)
        for check in self.checks(op, derived):
            value = check.base + check.factor * check.count
            if check.applies and (value != check.limit if check.equal else value > check.limit):
                return check.reason, check.text()
        return None

    def checks(self, op: Any, derived: Derived) -> Iterator[LimitCheck]:
        """Checks of an instruction; each assumes that the earlier checks pass."""
        yield from self._fields(op, derived)
        yield from self._buffers(op, derived)
        yield from self._addresses(op, derived)
        yield from self._words(op, derived)

    def _fields(self, op: Any, derived: Derived) -> Iterator[LimitCheck]:
        linear, attention = op.kind == Kind.LINEAR, op.kind == Kind.ATTENTION
        other = op.kind != Kind.LINEAR
        last = max(Kind)
        yield LimitCheck(Reason.KIND, lambda: f"kind {op.kind} is unknown", (op.kind == 0) | (op.kind > last))
        missing = (op.kind == Kind.ACTIVATION) & (op.activation == 0)
        unknown = (op.activation > len(ACTIVATIONS)) | missing
        yield LimitCheck(Reason.ACTIVATION, lambda: f"activation {op.activation} is unknown", unknown)
        yield LimitCheck(
            Reason.FORMAT,
            lambda: f"format {op.form} or pool {op.pool} is unknown",
            (op.form >= len(FORMATS)) | (op.pool >= len(POOLS)),
        )
        for name in SHIFTS:
            value = getattr(op, name)
            text = partial("{} = {}: a shift is at most {}".format, name, value, MOST_SHIFT)
            yield LimitCheck(Reason.SHIFT, text, value > MOST_SHIFT)
        yield LimitCheck(
            Reason.SIZE,
            lambda: f"{op.inputs} inputs and {op.outputs} outputs: a size is 0",
            (op.inputs == 0) | (op.outputs == 0),
        )
        yield LimitCheck(
            Reason.FEATURES,
            lambda: f"{op.inputs} inputs are not {op.outputs} outputs",
            other & (op.inputs != op.outputs),
        )
        yield LimitCheck(
            Reason.SUMS,
            lambda: f"sums of {TOTAL.width} bits are exact for at most {MOST_INPUTS} inputs, not {op.inputs}",
            (linear | attention) & (op.inputs > MOST_INPUTS),
        )
        yield LimitCheck(
            Reason.JOIN,
            lambda: f"join {op.join} is unknown to {Kind(op.kind).name.lower()}",
            (linear & (op.join > max(Join))) | (other & (op.join != 0)),
        )
        yield LimitCheck(
            Reason.JOIN,
            lambda: "a squared ReLU takes the product, so that nothing joins it",
            linear & (op.activation == SQUARED) & (op.join != Join.NONE),
        )
        yield LimitCheck(
            Reason.FORMAT,
            lambda: f"an activation and a gate take {Q8_16.width} bits, not {FORMATS[op.form]}",
            linear & (op.form == _WIDE) & ((op.activation != 0) | (op.join == Join.GATE)),
        )
        yield LimitCheck(
            Reason.SIZE,
            lambda: f"a bias and a row of positions have at most {self.features} values, not {op.outputs}",
            ((linear & (op.biased != 0)) | (op.kind == Kind.POSITIONS)) & (op.outputs > self.features),
        )
        yield from self._attention(op, derived)
        yield LimitCheck(
            Reason.NORM,
            lambda: f"a norm has at most {self.features} features, not {op.inputs}",
            (op.kind == Kind.NORM) & (op.inputs > self.features),
        )
        yield LimitCheck(
            Reason.FRACTION,
            lambda: f"weights have at most {MOST_FRACTION} fraction bits, not {op.fraction}",
            op.fraction > MOST_FRACTION,
        )

    def _attention(self, op: Any, derived: Derived) -> Iterator[LimitCheck]:
        """Refuse heads that do not divide each other or the array, and scales outside the softmax's range."""
        attention = op.kind == Kind.ATTENTION

        def heads() -> str:
            return f"{op.heads} heads of {op.width} features for {op.key_heads} of keys do not make {op.inputs}"

        wrong = (op.heads == 0) | (op.key_heads == 0) | (derived.remainder != 0)
        yield LimitCheck(Reason.HEADS, heads, attention & wrong)
        yield LimitCheck(Reason.HEADS, heads, attention, 0, op.heads, op.width, op.inputs, equal=True)
        # a tile of values belongs to a single head
        # with shared key heads, a head's queries and keys must have the same position in their rows
        for applies, kind, size in (
            (attention, "heads", self.size.columns),
            (attention & (op.heads != op.key_heads), "heads that share keys", self.size.lanes),
        ):
            parts = whole(op.width, size)
            text = partial("{} of {} features: they are to be a multiple of {}".format, kind, op.width, size)
            yield LimitCheck(Reason.HEADS, text, applies, 0, size, parts, op.width, equal=True)
        yield LimitCheck(
            Reason.ROTATION,
            lambda: f"rotations of a head of {op.width} features, not a multiple of {HALVES} up to {MOST_WIDTH}",
            attention & (op.rotary != 0) & (((op.width & (HALVES - 1)) != 0) | (op.width > MOST_WIDTH)),
        )
        least, most = FACTOR_FRACTIONS[0], FACTOR_FRACTIONS[-1]
        yield LimitCheck(
            Reason.SCALE,
            lambda: f"a factor of scores has {least} to {most} fraction bits, not {op.factor_fraction}",
            attention & ((op.factor_fraction < least) | (op.factor_fraction > most)),
        )

    def _rows(self, buffer: Any, features: Any) -> _Rows:
        wide, first = buffer >> ROW_BITS, buffer & ((1 << ROW_BITS) - 1)
        count = self.choose(wide, whole(features, self.size.columns), whole(features, self.size.lanes))
        return _Rows(wide, first, self.hold(first + count))

    def _buffers(self, op: Any, derived: Derived) -> Iterator[LimitCheck]:
        """Refuse rows outside the memories, and results that overwrite rows still to be read."""
        result = self._rows(op.destination, op.outputs)
        attention, two = op.kind == Kind.ATTENTION, (op.kind == Kind.GATE) | (op.kind == Kind.ADD)
        linear = op.kind == Kind.LINEAR
        yield from self._narrow(op)
        joined = (op.join == Join.ADD) | (op.join == Join.GATE)
        # for each operand: whether it is read, its features, whether the result may overwrite it
        read = {
            "source": (op.kind != 0, op.inputs, op.kind != Kind.LINEAR),
            "second": (attention | two, self.choose(attention, derived.keys, op.inputs), two),
            "third": (attention, derived.keys, op.kind == 0),
            "other": (joined, op.outputs, linear),
        }
        for name, (reads, features, over) in read.items():
            rows = self._rows(getattr(op, name), features)
            meet = (rows.wide == result.wide) & (rows.first < result.stop) & (result.first < rows.stop)
            meet = self.hold(meet & reads)
            same = self.hold(over & (rows.first == result.first) & (rows.stop == result.stop))
            yield self._inside(name, rows, reads)
            yield LimitCheck(
                Reason.OVERLAP,
                partial(_overlap, result, name, rows),
                meet & (same == 0),
            )
        yield self._inside("destination", result, op.kind != 0)

    @staticmethod
    def _narrow(op: Any) -> Iterator[LimitCheck]:
        """Refuse contexts and operands of array, activations and gates in the wide memory, and sums outside it."""
        linear, attention, gate = (op.kind == kind for kind in (Kind.LINEAR, Kind.ATTENTION, Kind.GATE))
        for name, applies in (
            ("source", linear | attention | gate | (op.kind == Kind.ACTIVATION)),
            ("second", attention | gate),
            ("third", attention),
            ("other", op.join == Join.GATE),
            ("destination", attention),
        ):
            text = partial("{} is in the wide memory, and to be in that of activations".format, name)
            yield LimitCheck(Reason.ROWS, text, applies & ((getattr(op, name) >> ROW_BITS) != 0))
        sums = (op.kind == Kind.ADD) | (op.kind == Kind.POSITIONS) | (op.join == Join.ADD)
        passed = linear & (op.activation == 0) & (op.join == Join.NONE) & (op.form == _WIDE)
        yield LimitCheck(
            Reason.ROWS,
            lambda: "destination is in the memory of activations, and to be in the wide one",
            (sums | passed) & ((op.destination >> ROW_BITS) == 0),
        )

    def _inside(self, name: str, rows: _Rows, applies: Any) -> LimitCheck:
        most = self.choose(rows.wide, self.size.wide_rows, self.size.rows)
        return LimitCheck(
            Reason.ROWS,
            lambda: f"{name} in rows {_text(rows)} of {self.counts.capacity} tokens is outside a memory of {most} rows",
            applies,
            0,
            rows.stop,
            self.counts.capacity,
            most,
        )

    def _addresses(self, op: Any, derived: Derived) -> Iterator[LimitCheck]:
        size, counts = self.size, self.counts
        linear, norm = op.kind == Kind.LINEAR, op.kind == Kind.NORM
        vector = whole(op.outputs, BEAT // 4)
        base = self.hold(op.beat + self.choose(op.biased, vector, 0) + self.choose(norm, vector, 0))
        each = self.choose(op.coded, record_beats(size, True), record_beats(size, False))
        each = self.choose(linear, each, 0)
        yield LimitCheck(
            Reason.BEATS,
            lambda: (
                f"beats {op.beat} to {base + each * derived.records - 1} are outside a stream of {counts.stream_beats}"
            ),
            op.kind != 0,
            base,
            derived.records,
            each,
            counts.stream_beats,
        )
        rows = self.choose(op.rotary, size.sums, op.positions)
        row_beats = self.choose(op.rotary, whole(op.width, BEAT // 4), vector)

        def table() -> str:
            return f"a table in beats {op.table} to {op.table + rows * row_beats - 1} is outside {counts.beats}"

        present = rows != 0
        yield LimitCheck(Reason.TABLE, table, present, counts.stream_beats, 0, 0, op.table)
        yield LimitCheck(Reason.TABLE, table, present, op.table, row_beats, rows, counts.beats)

        def corrections() -> str:
            return f"{op.corrections} sensitive weights from beat {op.correction_beat} on are outside {counts.beats}"

        present = op.corrections != 0
        first, beats = op.correction_beat, whole(op.corrections, BEAT // 8)
        yield LimitCheck(Reason.CORRECTIONS, corrections, present, counts.stream_beats, 0, 0, first)
        yield LimitCheck(Reason.CORRECTIONS, corrections, present, first, beats, 1, counts.beats)
        yield LimitCheck(
            Reason.POSITIONS,
            lambda: "it adds positions, of which there are none",
            (op.kind == Kind.POSITIONS) & (op.positions == 0),
        )

    def _words(self, op: Any, derived: Derived) -> Iterator[LimitCheck]:
        size = self.size
        vector = whole(op.outputs, size.multipliers)
        sensitive = whole(op.corrections, sensitive_word(size.columns))
        words = self.hold(self.choose(op.part, self.counts.behind, self.counts.words))
        matrix = self.choose(op.corrections, sensitive, derived.tiles)
        counts = {
            "word": self.choose(op.kind == Kind.LINEAR, matrix, vector),
            "bias_word": vector,
            "position_word": derived.table_tiles,
        }
        for name, count in counts.items():
            first = getattr(op, name)
            yield LimitCheck(
                Reason.WORDS,
                partial("{} = {} and {} words are outside {}".format, name, first, count, words),
                first != NO_WORD,
                first,
                count,
                1,
                words,
            )


def _overlap(result: _Rows, name: str, rows: _Rows) -> str:
    return f"the result in rows {_text(result)} overlaps {name} in rows {_text(rows)}"


def _text(rows: _Rows) -> str:
    return f"{rows.first} to {rows.stop - 1}"
