"""RTL of `word_offsets`: sequence the numbers of rows, one a cycle; sum, round, and collect words of offsets."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ....golden.stream.weights.word_offsets import (
    COUNT,
    FRACTION,
    OFFSET,
    PER_BEAT,
    WEIGHT_OFFSET,
    OffsetCommand,
    WordOffsetsSpec,
)
from ....golden.zo.coefficient import COEFFICIENT
from ....golden.zo.deltas import DELTA
from ...ports import members, shape
from ...primitives.mux_tree import mux_tree
from ...primitives.pipeline import Pipeline
from ...primitives.ram import ram
from ...primitives.rounding import saturate
from ...probe import probe
from ...zo.deltas.perturbation_numbers import PerturbationNumbers
from .offset_rounding import OffsetRounding
from .word_place import WordPlace

WORDS_AHEAD = 2
"""Maximum number of words of offsets in progress: one at the output, and one more."""


class WordOffsets(wiring.Component):
    """Maintain deltas and a perturbation, and deliver words of offsets; commands run in sequence.

    Attributes
    ----------
    stored, delta, row, column, table : Signal
        A delta is written; the delta and its address. For a monitor in the parent component.
    """

    def __init__(self, spec: WordOffsetsSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))
        self.walk = _Walk(spec)
        self.stored, self.delta = Signal(), Signal(DELTA.width)
        self.row, self.column = Signal(range(spec.times)), Signal(range(spec.row_words))
        self.table = Signal(spec.tables - 1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.numbers = numbers = PerturbationNumbers(self.spec.generator, self.spec.n)
        width = max(COEFFICIENT.width + numbers.format.width, DELTA.width) + 1
        m.submodules.plus = plus = OffsetRounding(width)
        m.submodules.minus = minus = OffsetRounding(width)
        pipeline = Pipeline(
            m,
            {
                "issue": 0,
                "read": numbers.latency - 1,
                "numbers": 1,
                "operands": 1,
                "product": 1,
                "sum": 1,
                "clipped": 1,
                "offset": plus.latency - 1,
            },
        )
        # two more cycles: registers of the collected word and of the offered word
        assert pipeline.latency("issue", "offset") + 2 == self.spec.latency
        walk = self.walk
        inside = Signal(pipeline.latency("issue", "sum"))
        flags = pipeline.place_flag("issue", walk.issue & ~walk.gives, inside)
        self._go_on(m, walk)
        self._take_commands(m, walk, inside.any())  # after `_go_on`: a new command's assignments take precedence
        m.d.comb += [numbers.i.eq(self.u.payload), numbers.part.eq(walk.column)]
        delta, number, into = self._operands(m, platform, pipeline, walk, flags.at("numbers"), numbers.o[0])
        updates = (
            (walk.kind == OffsetCommand.CLEAR) | (walk.kind == OffsetCommand.LOAD) | (walk.kind == OffsetCommand.UPDATE)
        )
        m.d.comb += into.en.eq(flags.at("sum") & updates)
        m.d.comb += into.data.eq(self._sums(m, pipeline, walk, (delta, number), (plus, minus), flags.at("sum")))
        m.d.comb += [
            Cat(self.column, self.row, self.table).eq(into.addr),
            self.stored.eq(into.en),
            self.delta.eq(into.data),
        ]
        self._save(m, walk, flags.at("operands"), delta)
        probe(self, inside=inside)
        return m

    # -- control ---------------------------------------------------------------------------------------------------

    def _take_commands(self, m: Module, walk: "_Walk", inside: Value) -> None:
        """Accept a command when the previous command is done; find the row of a request's first word before."""
        spec, fields, command = self.spec, self.command.payload, self.command
        m.submodules.place = place = WordPlace(spec.times, spec.n, spec.turn)
        requests = fields.kind == OffsetCommand.OFFSETS
        free, taken = Signal(), Signal()
        m.d.comb += [
            place.word.eq(fields.word),
            place.find.eq(command.valid & requests),
            command.ready.eq(free & (place.found | ~requests)),
            taken.eq(command.valid & command.ready),
            place.restart.eq(taken),
        ]
        # timing: `taken` settles late in the cycle, so the fields are sampled in every cycle, valid once accepted
        with m.If(free):
            m.d.sync += [
                walk.kind.eq(fields.kind),
                walk.gives.eq(requests),
                walk.factor.eq(
                    Mux((fields.kind == OffsetCommand.CLEAR) | (fields.kind == OffsetCommand.LOAD), 0, fields.factor)
                ),
                walk.left.eq(fields.count),
                walk.fraction.eq(fields.fraction),
                walk.wide.eq(fields.wide),
                walk.row.eq(place.row),
                walk.column.eq(place.turned),
                walk.turned.eq(place.turned),
                walk.numbers_left.eq(_numbers(spec, fields.kind)),
                walk.word_ends.eq(0),
            ]
            if spec.tables > 1:
                m.d.sync += walk.table.eq(fields.table)
        nothing = fields.count == 0
        ends = walk.word_ends & walk.is_last
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += free.eq(1)
                with m.If(taken):
                    self._begin(m, nothing, requests)
            with m.State("WALK"):
                m.d.comb += walk.walks.eq(1)
                with m.If(walk.gives & ends):
                    # a word in progress never stalls, so the next command may begin
                    m.d.comb += free.eq(1)
                    m.next = "IDLE"
                    with m.If(taken):
                        self._begin(m, nothing, requests)
                with m.Elif(walk.row_ends & walk.is_last):
                    m.next = "DRAIN"
            with m.State("DRAIN"), m.If(~inside & ~walk.saving):
                m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.valid.eq(1)
                with m.If(self.done.ready):
                    m.next = "IDLE"
        probe(self, fsm, free=free)

    def _begin(self, m: Module, nothing: Value, requests: Value) -> None:
        m.next = "WALK"
        with m.If(nothing):
            m.next = "DRAIN"
            with m.If(requests):
                m.next = "IDLE"

    def _go_on(self, m: Module, walk: "_Walk") -> None:
        """Issue a number once its operands are valid; then go to the row's next number, or to the next row."""
        spec, column, kind = self.spec, walk.column, walk.kind
        of_generator = (kind == OffsetCommand.PERTURB) | (kind == OffsetCommand.SKIP)
        following, turned = Signal.like(column), Signal.like(walk.turned)
        m.d.comb += following.eq(Mux(walk.gives & (column == spec.n - 1), 0, column + 1))
        # at the end of a row the generator's word is still valid, as it was valid at the first number
        enough, enough_at_end = Signal(init=1), Signal(init=1)
        with m.Switch(kind):
            with m.Case(OffsetCommand.LOAD):
                m.d.comb += [flag.eq(self.load.valid) for flag in (enough, enough_at_end)]
            with m.Case(OffsetCommand.SAVE):
                m.d.comb += [flag.eq(column[:2].any() | ~walk.saving) for flag in (enough, enough_at_end)]
            with m.Case(OffsetCommand.PERTURB, OffsetCommand.SKIP):
                m.d.comb += enough.eq(self.u.valid)
            with m.Case(OffsetCommand.OFFSETS):
                m.d.comb += enough.eq((walk.numbers_left != spec.n - 1) | (walk.ahead != WORDS_AHEAD))
        # these may be registers, as a word has at least two numbers
        wraps = Signal(reset_less=True)
        m.d.sync += [wraps.eq(walk.row == spec.times - 1), walk.is_last.eq(walk.left == 1)]
        farther = mux_tree(walk.turned, [(rotation + spec.turn) % spec.n for rotation in range(spec.n)])
        m.d.comb += [
            walk.issue.eq(walk.walks & enough),
            walk.row_ends.eq(walk.walks & walk.word_ends & enough_at_end),
            turned.eq(Mux(wraps, farther, walk.turned)),
            self.load.ready.eq(walk.walks & (kind == OffsetCommand.LOAD) & column[:2].all()),
            self.u.ready.eq(walk.walks & of_generator & walk.word_ends),
        ]
        with m.If(walk.row_ends):
            m.d.sync += [
                walk.left.eq(walk.left - 1),
                walk.row.eq(Mux(wraps, 0, walk.row + 1)),
                walk.numbers_left.eq(_numbers(spec, kind)),
                walk.word_ends.eq(0),
                walk.turned.eq(turned),
                column.eq(turned),
            ]
        with m.Elif(walk.issue):
            m.d.sync += [
                column.eq(following),
                walk.numbers_left.eq(walk.numbers_left - 1),
                walk.word_ends.eq(walk.numbers_left == 1),
            ]
        probe(self, wraps=wraps)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _operands(
        self, m: Module, platform: object, pipeline: Pipeline, walk: "_Walk", changes: Value, drawn: Value
    ) -> tuple[Signal, Signal, Any]:
        """Delta and perturbation of a number, from memory or from an input, and the write port of deltas."""
        spec, kind = self.spec, walk.kind
        deltas_shape, numbers_shape = spec.memories
        m.submodules.deltas = deltas = ram(platform, deltas_shape)
        m.submodules.perturbation = perturbation = ram(platform, numbers_shape)
        address = pipeline.place("issue", Cat(walk.column, walk.row, walk.table), "address", reset_less=True)
        delta_port, number_port = deltas.read_port(), perturbation.read_port()
        delta_write, number_write = deltas.write_port(), perturbation.write_port()
        words = [self.load.payload.delta[number] for number in range(PER_BEAT)]
        loaded = pipeline.place("issue", mux_tree(walk.column[:2], words), "loaded", reset_less=True)
        fills = pipeline.place("issue", walk.column >= spec.n, "fills", reset_less=True)
        delta = Signal(shape(DELTA), reset_less=True)
        number = Signal(drawn.shape(), reset_less=True)
        m.d.comb += [
            delta_port.addr.eq(address.at("read")),
            number_port.addr.eq(address.at("read")),
            delta_write.addr.eq(address.at("sum")),
            number_write.addr.eq(address.at("numbers")),
            number_write.data.eq(drawn),
            number_write.en.eq(changes & (kind == OffsetCommand.PERTURB)),
        ]
        m.d.sync += [
            delta.eq(Mux(changes & (kind == OffsetCommand.LOAD), loaded.at("numbers"), delta_port.data)),
            number.eq(Mux(changes & (kind == OffsetCommand.PERTURB), drawn, number_port.data)),
        ]
        with m.If(changes & ((kind == OffsetCommand.CLEAR) | ((kind == OffsetCommand.SAVE) & fills.at("numbers")))):
            m.d.sync += delta.eq(0)
        return delta, number, delta_write

    def _sums(
        self,
        m: Module,
        pipeline: Pipeline,
        walk: "_Walk",
        operands: tuple[Signal, Signal],
        roundings: tuple[OffsetRounding, OffsetRounding],
        changes: Value,
    ) -> Value:
        """Sum delta and product for both signs, and round to offsets; returns the plus sum, to be stored as delta."""
        (delta, number), (plus, minus) = operands, roundings
        factor = Signal(shape(COEFFICIENT), reset_less=True)
        pipeline.load(factor, pipeline.place("issue", walk.factor, "factor", reset_less=True).at("numbers"))
        product = Signal(signed(len(factor) + len(number)), reset_less=True)
        added = pipeline.place("operands", delta, "added", reset_less=True).at("product")
        m.d.sync += product.eq(number * factor)
        above, below = (Signal(signed(plus.width), name=name, reset_less=True) for name in ("above", "below"))
        m.d.sync += [above.eq(added + product), below.eq(added - product)]
        fraction = pipeline.place("issue", walk.fraction, "fraction", reset_less=True).at("clipped")
        m.d.comb += [
            plus.total.eq(above),
            minus.total.eq(below),
            plus.fraction.eq(fraction),
            minus.fraction.eq(fraction),
        ]
        clipped = self.done.payload.clipped
        with m.If(self.command.valid & self.command.ready):
            m.d.sync += clipped.eq(0)
        with m.Elif(changes & (walk.kind == OffsetCommand.PERTURB)):
            m.d.sync += clipped.eq(clipped + plus.overflow + minus.overflow)
        gives = pipeline.place("issue", walk.issue & walk.gives, "gives")
        ends = pipeline.place("issue", walk.word_ends, "ends", reset_less=True)
        wide = pipeline.place("issue", walk.wide, "wide", reset_less=True).at("offset")
        numbers = [Mux(wide, rounding.o, saturate(rounding.o, WEIGHT_OFFSET.width)) for rounding in roundings]
        self._collect(m, walk, numbers, gives.at("offset"), ends.at("offset"))
        probe(self, gives=gives.later, ends=ends.later)
        return above[: DELTA.width]

    def _collect(self, m: Module, walk: "_Walk", numbers: list[Value], valid: Value, ends: Value) -> None:
        """Collect the numbers of a word in a shift register, and offer the word while the next is collected."""
        offsets, complete = self.offsets, Signal()
        # timing: `ready` settles late in the cycle, so a word waits a cycle after acceptance; words are many cycles
        # apart
        offers = complete & ~offsets.valid
        with m.If(offsets.ready):
            m.d.sync += offsets.valid.eq(0)
        with m.If(offers):
            m.d.sync += [offsets.valid.eq(1), complete.eq(0)]
        with m.If(valid & ends):
            m.d.sync += complete.eq(1)
        for name, number in zip(("plus", "minus"), numbers, strict=True):
            port = Value.cast(offsets.payload[name])
            word, offered = (Signal(len(port), name=f"{name}_{kind}", reset_less=True) for kind in ("word", "offered"))
            m.d.comb += port.eq(offered)
            with m.If(valid):
                m.d.sync += word.eq(Cat(word, number.as_signed())[OFFSET.width :])
            with m.If(offers):
                m.d.sync += offered.eq(word)
        begins = walk.issue & walk.gives & (walk.numbers_left == self.spec.n - 1)
        m.d.sync += walk.ahead.eq(walk.ahead + begins - (offsets.valid & offsets.ready))
        probe(self, complete=complete, offers=offers)

    def _save(self, m: Module, walk: "_Walk", changes: Value, delta: Signal) -> None:
        """Collect the deltas of a beat in a shift register; the next beat begins after the acceptance."""
        saves = walk.kind == OffsetCommand.SAVE
        beat = Signal(DELTA.width * PER_BEAT, reset_less=True)
        shifts, number = Signal(), Signal(range(PER_BEAT))
        m.d.comb += [shifts.eq(changes & saves), Value.cast(self.save.payload).eq(beat)]
        with m.If(self.save.ready):
            m.d.sync += self.save.valid.eq(0)
        with m.If(self.save.valid & self.save.ready):
            m.d.sync += walk.saving.eq(0)
        with m.If(walk.issue & saves):
            m.d.sync += walk.saving.eq(1)
        with m.If(shifts):
            m.d.sync += [beat.eq(Cat(beat, delta)[DELTA.width :]), number.eq(number + 1)]
            m.d.sync += self.save.valid.eq(number == PER_BEAT - 1)
        probe(self, number=number)


def _numbers(spec: WordOffsetsSpec, kind: Value) -> Value:
    """Number of a row's numbers, minus 1; a skipped word counts as two numbers."""
    of_image = (kind == OffsetCommand.LOAD) | (kind == OffsetCommand.SAVE)
    return Mux(kind == OffsetCommand.SKIP, 1, Mux(of_image, spec.row_words - 1, spec.n - 1))


class _Walk:
    """Command in progress, and its current number.

    Attributes
    ----------
    kind, factor, fraction, wide, table
        Fields of the command.
    left : unsigned
        Rows or words left.
    row, column, turned : range(times), range(row_words), range(n)
        Address of the number: row and column; first column of the row, by its rotation.
    numbers_left : range(row_words)
        Numbers left in the row after the current number.
    walks, issue : 1
        The command has rows left; a number is issued in the current cycle.
    gives, word_ends, is_last : 1
        The command is a request for offsets; the number is the row's last; the row is the last.
    row_ends : 1
        The last number of a row is issued in the current cycle.
    ahead : range(WORDS_AHEAD + 1)
        Number of words of offsets in progress, the offered word included.
    saving : 1
        A beat of an image is collected or offered.
    """

    def __init__(self, spec: WordOffsetsSpec) -> None:
        self.kind, self.factor = Signal(OffsetCommand, reset_less=True), Signal(shape(COEFFICIENT), name="factor")
        self.left, self.fraction = Signal(COUNT.width), Signal(FRACTION.width, name="fraction", reset_less=True)
        self.wide, self.table = Signal(name="wide", reset_less=True), Signal(spec.tables - 1, name="table")
        self.row, self.column = Signal(range(spec.times), name="row"), Signal(range(spec.row_words), name="column")
        self.turned, self.numbers_left = Signal(range(spec.n), name="turned"), Signal(range(spec.row_words))
        self.walks, self.issue = Signal(name="walks"), Signal(name="issue")
        self.gives, self.word_ends, self.is_last = (
            Signal(name="gives"),
            Signal(name="word_ends"),
            Signal(reset_less=True),
        )
        self.row_ends = Signal(name="row_ends")
        self.ahead, self.saving = Signal(range(WORDS_AHEAD + 1)), Signal(name="saving")
