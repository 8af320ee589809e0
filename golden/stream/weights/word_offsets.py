"""`word_offsets`: folded deltas, a step's perturbation, and the offsets of both sides of each word.

Deltas and perturbation have a row for each cycle of the generator until its numbers repeat, see `golden.zo.deltas`. The
block takes one number of a row per cycle, because the array needs as many cycles for a transformer's word. Zeroth-order
cores with the whole network on the chip take whole rows instead, see `golden.zo.rows`.

Number j of word w is number ``(j + turn) mod n`` of row ``w mod times``. Rows are stored with the order of numbers for
``w < times``, turn 0, as in an image. Each further pass through all rows adds ``times mod n`` to the turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

import numpy as np

from ...axi.bus import BEAT
from ...block import Field, Spec, Stream, Words
from ...errors import UserError
from ...fixed import Format, Integers, Narrower, Overflow, narrow, shifted
from ...memories.plan import MemoryShape
from ...rng.perturbation import FoldableSource
from ...rng.pezo import PezoSpec
from ...rng.urng import BIT
from ...zo.coefficient import COEFFICIENT
from ...zo.deltas import DELTA, Deltas, PerturbationTable
from ..forward import WEIGHT_BITS

KIND = Format(3, 0, signed=False)
WORD = Format(32, 0, signed=False)
"""Format of a word's number."""
COUNT = Format(24, 0, signed=False)
FRACTION = Format(5, 0, signed=False)
MOST_FRACTION = WEIGHT_BITS - 1
"""Largest number of fraction bits of a tensor."""
OFFSET = Format(21, 0)
"""Format of an offset; offsets with 16 fraction bits fit exactly."""
WEIGHT_OFFSET = Format(WEIGHT_BITS + 1, 0)
"""Format to which an offset of a weight is saturated; the sum has one bit less and is unchanged."""
PER_BEAT = BEAT // 4
MOST_NUMBERS = 1 << 15
"""Largest number of numbers of a table, with rows of whole beats: 32 block RAMs of deltas."""


class OffsetCommand(IntEnum):
    """Kind of a command; all except `OFFSETS` and `SKIP` act on the first `count` rows."""

    CLEAR = 0
    """Set the deltas to 0."""
    LOAD = 1
    """Read the deltas from an image."""
    SAVE = 2
    """Write an image of the deltas."""
    PERTURB = 3
    """Read the perturbation, a row per word of the generator, and count its clipped offsets."""
    UPDATE = 4
    """Add a multiple of the perturbation to the deltas."""
    OFFSETS = 5
    """Make the offsets of `count` words."""
    SKIP = 6
    """Read and discard `count` words of the generator."""


@dataclass(frozen=True, kw_only=True)
class WordOffsetsSpec(Spec):
    """Parameters and model of `word_offsets`.

    Parameters
    ----------
    generator : PezoSpec
        Generator of the perturbations. Its numbers must repeat, or each word would need a row of deltas; at least 2
        numbers per cycle, and at most 32,768 numbers until they repeat, the size of the memory.
    tables : int
        Tables of deltas, each with a perturbation: 1, or 2 for networks cut in two, as in the preset `cut`.
    """

    name: ClassVar[str] = "word_offsets"
    summary: ClassVar[str] = "folded deltas and a perturbation; offsets of both sides of each word, a number a cycle"
    presets: ClassVar[dict[str, dict[str, object]]] = {"cut": {"tables": 2}}

    generator: PezoSpec = field(default_factory=PezoSpec)
    tables: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.generator, FoldableSource):
            raise UserError(
                f"a generator {self.generator.name} does not return to its numbers: each word would need a row of "
                "deltas"
            )
        if self.generator.width < 2:
            raise UserError(
                "a generator of 1 number a cycle: a word's parameters would all get the same one; take more"
            )
        if self.times * self.row_words > MOST_NUMBERS:
            raise UserError(
                f"the generator's numbers return after {self.times} cycles: {self.times} rows of {self.row_words} "
                f"deltas are more than the memory's {MOST_NUMBERS}; take generators of fewer bits or a smaller pool, "
                "such as generator.scale.urng.bits=8 or generator.pool.p=33 with generator.pool.size=16863"
            )
        if not 1 <= self.tables <= 2:
            raise UserError(f"tables = {self.tables} is not 1 or 2: a network has one part, or is cut in two")

    @property
    def n(self) -> int:
        return self.generator.width

    @property
    def times(self) -> int:
        """Number of rows: the words' period."""
        return len(self.generator.base)

    @property
    def row_words(self) -> int:
        """32-bit words of a row's image: whole beats."""
        return -(-self.n // PER_BEAT) * PER_BEAT

    @property
    def turn(self) -> int:
        """Additional rotation of the numbers with each pass through all rows."""
        return self.times % self.n if self.generator.rotates else 0

    @property
    def latency(self) -> int:
        """Cycles from a word's last number to the word: generator's number, operands to rounding 10, word 2.

        A generator's number with more fraction bits than the job's is rounded, 3 cycles.
        """
        return 13 if PerturbationTable(self.generator).fraction == self.generator.fraction_bits else 16

    def request_cycles(self, count: int) -> int:
        """Cycles from a request to the last of its `count` words in an idle block, without back-pressure.

        The first word's address takes a cycle per bit. Each word takes n cycles if the latency is at most n.
        """
        start, ends = WORD.width + 2, [0, 0]
        for _ in range(count):
            start = max(start, ends[-2])
            ends.append(start + self.n + self.latency)
            start += self.n
        return ends[-1]

    def streams(self) -> dict[str, Stream]:
        settings = (
            Field("kind", KIND, doc="see below"),
            Field("factor", COEFFICIENT, doc="multiple of the perturbation"),
            Field("word", WORD, doc="number of the first word of offsets"),
            Field("count", COUNT, doc="rows, or words; 0 is nothing"),
            Field("fraction", FRACTION, doc="fraction bits of the offsets, 0 to 17"),
            Field("wide", BIT, doc="offsets have all 21 bits"),
        )
        table = (Field("table", BIT),) if self.tables > 1 else ()
        image = (Field("delta", DELTA, PER_BEAT),)
        return {
            "command": Stream(
                "in",
                settings + table,
                doc="A `golden.stream.weights.word_offsets.OffsetCommand`. The next one is taken when it is done; "
                "while offsets are made, the place of the next request's first word is found.",
            ),
            "u": Stream(
                "in",
                self.generator.streams()["o"].fields,
                doc="Words of the generator; a word is taken with the last of its numbers.",
            ),
            "load": Stream("in", image, doc="Images of deltas, each row from a beat on; what fills a row up is 0."),
            "save": Stream("out", image, doc="Images of deltas, each row from a beat on; what fills a row up is 0."),
            "offsets": Stream(
                "out",
                (
                    Field("plus", OFFSET, self.n, doc="offsets on both sides, number 0 in the lowest bits"),
                    Field("minus", OFFSET, self.n, doc="offsets on both sides, number 0 in the lowest bits"),
                ),
                doc="Offsets of a word on both sides of the perturbation.",
            ),
            "done": Stream(
                "out",
                (Field("clipped", self.clipped_format),),
                doc="A command is over, but for those of offsets; how many offsets of a perturbation were clipped.",
            ),
        }

    @property
    def clipped_format(self) -> Format:
        return Format.up_to(2 * self.times * self.n)

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Outputs of all commands.

        Raises `UserError` if a command is unknown, has too many rows or fraction bits, or reads rows never written.
        """
        model = _Model(self, inputs)
        commands = inputs["command"]
        for number in range(len(commands["kind"])):
            model.carry_out({name: int(column[number, 0]) for name, column in commands.items()})
        return model.outputs()

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        column = (self.row_words - 1).bit_length()
        row = (self.times - 1).bit_length()
        depth = self.tables << (row + column) if self.tables > 1 else self.times << column
        perturbation = PerturbationTable(self.generator).format
        return (
            MemoryShape("deltas", depth, DELTA.width, lut_rows=0, ultra=True),
            MemoryShape("perturbation", depth, perturbation.width, lut_rows=0, ultra=True),
        )


class _Table:
    """Deltas and perturbation, and the number of written rows of each."""

    def __init__(self, perturbation: PerturbationTable) -> None:
        self.deltas, self.numbers = Deltas(perturbation), np.zeros(perturbation.shape, np.int64)
        self.known = self.perturbed = 0


class _Model:
    """State of the block, and its previous outputs."""

    def __init__(self, spec: WordOffsetsSpec, inputs: dict[str, Words]) -> None:
        self.spec, self.perturbation = spec, PerturbationTable(spec.generator)
        self.tables = [_Table(self.perturbation) for _ in range(spec.tables)]
        numbers = spec.generator.scaled(inputs["u"])
        self._numbers, self._numbers_taken = self.perturbation.narrowed(numbers), 0
        self._image = inputs["load"]["delta"].reshape(-1, spec.row_words)
        self._rows_taken = 0
        self._sides: list[tuple[Integers, Integers]] = []
        self._saved: list[Integers] = []
        self._clipped: list[int] = []

    def carry_out(self, command: dict[str, int]) -> None:
        count, kinds = command["count"], [member.value for member in OffsetCommand]
        if command["kind"] not in kinds:
            raise UserError(f"kind = {command['kind']} is not in {kinds[0]} to {kinds[-1]}")
        kind, table = OffsetCommand(command["kind"]), self.tables[command.get("table", 0)]
        if kind is OffsetCommand.OFFSETS:
            self._give_offsets(table, command)
            return
        if count > self.spec.times and kind is not OffsetCommand.SKIP:
            raise UserError(f"{kind.name} of {count} rows: there are {self.spec.times}")
        narrower = Narrower()
        self._change(kind, table, count, command["factor"], narrower)
        self._clipped.append(narrower.saturations)

    def _change(self, kind: OffsetCommand, table: _Table, count: int, factor: int, narrower: Narrower) -> None:
        deltas, of, n = table.deltas, self.perturbation, self.spec.n
        if kind in (OffsetCommand.CLEAR, OffsetCommand.LOAD):
            rows = np.zeros((count, n), np.int64)
            if kind is OffsetCommand.LOAD:
                rows = self._image[self._rows_taken : self._rows_taken + count, :n]
                self._rows_taken += count
            deltas.total, table.known = of.folded(rows, deltas.total), max(table.known, count)
        elif kind in (OffsetCommand.PERTURB, OffsetCommand.SKIP):
            numbers = self._numbers[self._numbers_taken : self._numbers_taken + count]
            self._numbers_taken += count
            if kind is OffsetCommand.PERTURB:
                self._needs(kind, table.known, count)
                table.numbers, table.perturbed = of.folded(numbers, table.numbers), max(table.perturbed, count)
                for side in (factor, -factor):
                    narrower(of.spread(deltas.total + side * table.numbers, count), DELTA, DELTA)
        else:
            self._needs(kind, table.known, count)
            rows = of.spread(deltas.total, count)
            if kind is OffsetCommand.SAVE:
                self._saved.append(np.pad(rows, ((0, 0), (0, self.spec.row_words - n))))
            else:
                self._needs(kind, table.perturbed, count)
                moved = rows + factor * of.spread(table.numbers, count)
                deltas.total = of.folded(narrow(moved, DELTA, DELTA, overflow=Overflow.WRAP), deltas.total)

    def _give_offsets(self, table: _Table, command: dict[str, int]) -> None:
        """Offsets of words, clipped to the deltas' range and rounded to a fraction."""
        fraction, factor = command["fraction"], command["factor"]
        if fraction > MOST_FRACTION:
            raise UserError(f"fraction = {fraction} is not in 0 to {MOST_FRACTION}")
        words = command["word"] + np.arange(command["count"])
        if len(words):
            self._needs(OffsetCommand.OFFSETS, table.known, int((words % self.spec.times).max()) + 1)
            if factor:
                self._needs(OffsetCommand.OFFSETS, table.perturbed, int((words % self.spec.times).max()) + 1)
        form, both = OFFSET if command["wide"] else WEIGHT_OFFSET, []
        for side in (factor, -factor):
            exact = self.perturbation.numbers(table.deltas.total + side * table.numbers, words)
            rounded = shifted(narrow(exact, DELTA, DELTA), np.array(DELTA.fraction - fraction))
            both.append(np.clip(rounded, form.minimum, form.maximum))
        self._sides.append((both[0], both[1]))

    def _needs(self, kind: OffsetCommand, rows: int, needed: int) -> None:
        if needed > rows:
            raise UserError(f"{kind.name} of row {needed - 1}: only {rows} rows have been set")

    def outputs(self) -> dict[str, Words]:
        none = np.zeros((0, self.spec.n), np.int64)
        plus, minus = (np.concatenate([none, *(sides[side] for sides in self._sides)]) for side in range(2))
        saved = np.concatenate([np.zeros((0, self.spec.row_words), np.int64), *self._saved])
        return {
            "offsets": {"plus": plus, "minus": minus},
            "save": {"delta": saved.reshape(-1, PER_BEAT)},
            "done": {"clipped": np.array(self._clipped, np.int64)[:, None]},
        }
