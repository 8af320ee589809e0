"""RTL of `pool_head`: read chunks, average tokens or divide rows by their norm, and write the results."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.stream.values.pool_head import KINDS, PASSES, PoolHeadSpec
from ...ports import elements, members
from ...primitives.registers import replicas
from ...probe import probe
from ..memory.chunk_line import ChunkLine
from .operand_reads import operand_reads
from .pooling.pool_average import PoolAverage
from .pooling.unit_rows import UnitRows


class PoolHead(wiring.Component):
    """Pool tokens or normalise rows, one operation at a time.

    A pooling goes chunk by chunk, and for each chunk sentence by sentence: it reads the chunk of every token, and
    writes the mean `AVERAGE_CYCLES` cycles after the last. A division of a row by its norm takes three passes over the
    row; a chunk takes a cycle for each word of `UNIT_LANES` values.
    """

    def __init__(self, spec: PoolHeadSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        self._settings = settings = Signal.like(self.operation.payload, reset_less=True)
        m.submodules.source = source = ChunkLine(spec.layout)
        m.submodules.destination = destination = ChunkLine(spec.layout)
        m.submodules.average = average = PoolAverage(spec.columns, spec.longest)
        m.submodules.unit = unit = UnitRows(spec)
        last = Signal(range(-(-spec.features // spec.columns)), reset_less=True)
        # `_behind`: number of chunks after the current chunk; `_ends`: it is 0; `ending`: `_ends` for the next chunk
        self._item, self._behind, self._last = Signal(range(spec.sums)), Signal.like(last), last
        self._ends, ending = Signal(reset_less=True), Signal()
        self._opens, self._goes_on = Signal(), Signal()
        # index of the last item; masks of the values beyond the features: of a row's last chunk, of the current chunk
        self._last_item = Signal.like(self._item, reset_less=True)
        outside, beyond = (Signal(spec.columns, name=name, reset_less=True) for name in ("outside", "beyond"))
        values = elements(self.operands.payload.value, spec.streams()["operands"].fields[0])
        chunk = Cat(Mux(out, 0, value) for out, value in zip(beyond, values, strict=True))
        m.d.comb += [
            *(line.stride.eq(settings.stride) for line in (source, destination)),
            source.wide.eq(settings.source_wide),
            source.base.eq(settings.source),
            destination.wide.eq(settings.destination_wide),
            destination.base.eq(settings.destination),
            Value.cast(average.value).eq(chunk),
            Value.cast(unit.i.payload).eq(chunk),
        ]
        with m.If(self.operation.ready):
            final, bits = self.operation.payload.features - 1, exact_log2(spec.columns)
            # the first value of a chunk is always a feature
            m.d.sync += outside.eq(Cat(final[:bits] < number if number else 0 for number in range(spec.columns)))
            m.d.sync += last.eq(final[bits:])
        m.d.comb += ending.eq(Mux(self._opens, last == 0, self._behind == 1))
        with m.If(self._opens | self._goes_on):
            m.d.sync += [
                self._behind.eq(Mux(self._opens, last, self._behind - 1)),
                self._ends.eq(ending),
                beyond.eq(outside & ending.replicate(spec.columns)),
            ]
        m.d.sync += self._last_item.eq(settings.rows - 1)
        self._reads(m, source, unit)
        self._states(m, source, destination, average, unit)
        probe(self, outside=outside, beyond=beyond)
        return m

    def _reads(self, m: Module, source: ChunkLine, unit: UnitRows) -> None:
        """Request the chunks of a sentence's tokens or of a row, and count their arrivals."""
        spec, last = self.spec, self._last
        # number of chunks to request, minus 1; of chunks to accept, minus 1; row of the requested chunk
        most = max(1 << len(last), spec.sums)
        self._left, self._due = (Signal(range(most), name=name, reset_less=True) for name in ("left", "due"))
        self._row, self._asking, self._wants = Signal(range(spec.sums), reset_less=True), Signal(), Signal()
        # copies of the operation's kind: for the write data, and for control
        of_unit, self._came, self._adds = replicas(2, "of_unit"), Signal(), Signal()
        self._write_unit, self._is_unit = of_unit
        with m.If(self.operation.ready):
            m.d.sync += [flag.eq(self.operation.payload.kind == KINDS.index("unit")) for flag in of_unit]
        takes, pools = self._wants & (~self._is_unit | unit.i.ready), self._wants & ~self._is_unit
        self._asked, present, self._owed = operand_reads(m, self.operands_read, self.operands, self._asking, takes)
        m.d.comb += [
            *_place(self.operands_read.payload, source, self._row),
            unit.i.valid.eq(self._wants & self._is_unit & present),
            self._came.eq(takes & present),
            # timing: not derived from `_came`, so that averaging does not depend on `unit.i.ready`
            self._adds.eq(pools & present),
        ]
        with m.If(self._asked):
            m.d.sync += [self._left.eq(self._left - 1), self._asking.eq(self._left.any())]
            m.d.sync += self._row.eq(self._row + ~self._is_unit)
        with m.If(self._came):
            m.d.sync += self._due.eq(self._due - 1)
            m.d.comb += self._goes_on.eq(self._is_unit)

    def _states(
        self, m: Module, source: ChunkLine, destination: ChunkLine, average: PoolAverage, unit: UnitRows
    ) -> None:
        """State machine of an operation: each sentence in turn, or each pass over each row.

        Longer than most functions, as all states share the registers.
        """
        settings, sentence = self._settings, self.sentences.payload
        step, count, fresh = Signal(range(PASSES)), Signal.like(average.count, reset_less=True), Signal(reset_less=True)
        steps, mean, final_item = Signal(range(average.STEPS), reset_less=True), Signal(), Signal()
        rounds = Signal()
        m.d.comb += [
            mean.eq(settings.kind == KINDS.index("mean")),
            final_item.eq(self._item == self._last_item),
            *_place(self.write.payload, destination, self._item),
            average.first.eq(fresh),
            average.round.eq(rounds),
            average.add.eq(self._adds),
            average.count.eq(count),
            unit.step.eq(step),
            unit.o.ready.eq(self.write.ready),
            *(
                to.eq(Mux(self._write_unit, result, pooled))
                for to, result, pooled in zip(
                    elements(self.write.payload.value, self.spec.streams()["write"].fields[-1]),
                    unit.o.payload,
                    average.o,
                    strict=True,
                )
            ),
        ]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.operation.ready.eq(1)
                m.d.sync += [settings.eq(self.operation.payload), step.eq(0), self._item.eq(0)]
                with m.If(self.operation.valid):
                    m.next = "OPEN"
            with m.State("OPEN"):
                m.d.comb += [source.start.eq(1), destination.start.eq(step == 0), unit.begin.eq(step == 0)]
                m.d.comb += self._opens.eq(1)
                m.d.sync += [self._left.eq(self._last), self._due.eq(self._last)]
                m.d.sync += [self._row.eq(self._item), self._asking.eq(self._is_unit)]
                m.d.sync += self._wants.eq(self._is_unit)
                m.next = "TAKE"
                with m.If(self._is_unit):
                    m.next = "READ"
            with m.State("TAKE"):
                rows = Mux(mean, sentence.length - 1, 0)
                is_last = settings.kind == KINDS.index("last")
                m.d.comb += self.sentences.ready.eq(1)
                m.d.sync += [
                    self._row.eq(sentence.first + Mux(is_last, sentence.length - 1, 0)),
                    count.eq(sentence.length),
                    self._left.eq(rows),
                    self._due.eq(rows),
                    fresh.eq(1),
                    steps.eq(average.STEPS - 1),
                ]
                with m.If(self.sentences.valid):
                    m.d.sync += [self._asking.eq(1), self._wants.eq(1)]
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += source.advance.eq(self._asked & self._is_unit)
                with m.If(self._came):
                    m.d.sync += fresh.eq(0)
                    with m.If(self._due == 0):
                        m.d.sync += self._wants.eq(0)
                        m.next = "WRITE"
                        with m.If(self._is_unit):
                            m.next = "DRAIN"
                        with m.Elif(mean):
                            m.next = "DIVIDE"
            with m.State("DIVIDE"):
                m.d.comb += average.divide.eq(1)
                m.d.sync += steps.eq(steps - 1)
                with m.If(steps == 0):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.sync += rounds.eq(1)
                m.next = "ROUND"
            with m.State("ROUND"):
                m.d.sync += rounds.eq(0)
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += self.write.valid.eq(1)
                with m.If(self.write.ready):
                    m.next = "TAKE"
                    m.d.sync += self._item.eq(self._item + 1)
                    with m.If(final_item):
                        m.d.comb += [source.advance.eq(1), destination.advance.eq(1), self._goes_on.eq(1)]
                        m.d.sync += self._item.eq(0)
                        with m.If(self._ends):
                            m.next = "DONE"
            with m.State("DRAIN"), m.If(unit.idle):
                m.next = "OPEN"
                m.d.sync += step.eq(Mux(step == PASSES - 1, 0, step + 1))
                with m.If(step == PASSES - 1):
                    m.d.sync += self._item.eq(self._item + 1)
                    with m.If(final_item):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.valid.eq(1)
                with m.If(self.done.ready):
                    m.next = "IDLE"
        with m.If(unit.o.valid):
            m.d.comb += [self.write.valid.eq(1), destination.advance.eq(self.write.ready)]
        probe(self, fsm, step=step, rounds=rounds)


def _place(payload: Any, line: ChunkLine, row: Value) -> list[Any]:
    return [payload.wide.eq(line.in_wide), payload.address.eq(line.line + row), payload.part.eq(line.part)]
