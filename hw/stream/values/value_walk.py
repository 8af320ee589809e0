"""Chunk sequencer of a value operation."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.stream.values.value_operation import settings
from ....golden.stream.values.value_path import ValuePathSpec
from ...ports import layout
from ...primitives.fifo import Fifo
from ..memory.chunk_line import ChunkLine, chunk_layout


def words_layout(spec: ValuePathSpec) -> data.StructLayout:
    """Layout of a chunk's job for the first stage: bias group and sign, or a `release` of the biases."""
    return data.StructLayout({"group": (spec.bias_groups - 1).bit_length(), "side": 1, "release": 1})


def result_layout(spec: ValuePathSpec) -> data.StructLayout:
    """Layout of a chunk's job for the last stage.

    The chunk's address, and flags: the features end in the chunk; the chunk lies beyond the features; all chunks are
    done.
    """
    return data.StructLayout({"place": chunk_layout(spec.layout), "partial": 1, "empty": 1, "end": 1})


class ValueWalk(wiring.Component):
    """Step through the chunks of an operation: a chunk a cycle, if reads and queues allow.

    With positions, each position takes one more cycle, and one more for each sentence.

    Attributes
    ----------
    begin : In(1)
        An operation begins; must come after the end of the previous operation.
    operation : In
        With `begin`: the operation.
    sentences : In, stream of ``first``, ``length``
        As in `ValuePath`.
    room, asked : In(2), Out(2)
        `room` and `asked` of the queues of first and second values, see `ChunkWords`.
    read : Out, stream of ``wide``, ``address``, ``part``, ``tag``
        `operands_read` of `ValuePath`.
    words : Out, stream of `words_layout`
        Chunks to process. `ready` must not depend on `valid`; the same holds for `results`.
    results : Out, stream of `result_layout`
        Chunks to write, and the end of the operation.
    """

    def __init__(self, spec: ValuePathSpec) -> None:
        self.spec = spec
        ports = {name: layout(port) for name, port in spec.streams().items()}
        super().__init__(
            {
                "begin": In(1),
                "operation": In(ports["operation"]),
                "sentences": In(stream.Signature(ports["sentences"])),
                "room": In(2),
                "asked": Out(2),
                "read": Out(stream.Signature(ports["operands_read"])),
                "words": Out(stream.Signature(words_layout(spec))),
                "results": Out(stream.Signature(result_layout(spec))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        chunk = chunk_layout(spec.layout)
        job = data.StructLayout(
            {
                "source": chunk,
                "second": chunk,
                "words": words_layout(spec),
                "result": result_layout(spec),
                "asks": 2,
                "passes": 1,
                "writes": 1,
            }
        )
        # timing: the queue cuts long paths
        m.submodules.jobs = jobs = Fifo(job, 2)
        self._issue(m, jobs.o)
        self._walk(m, jobs.i)
        return m

    def _issue(self, m: Module, source: Any) -> None:
        valid, job, again, done = source.valid, source.payload, Signal(), Signal()
        second = ~job.asks[0] | again
        space = (~job.passes | self.words.ready) & (~job.writes | self.results.ready)
        asked = self.read.valid & self.read.ready
        m.d.comb += [
            self.read.valid.eq(valid & space & job.asks.any() & self.room.bit_select(second, 1)),
            *(
                self.read.payload[name].eq(Mux(second, job.second[name], job.source[name]))
                for name in ("wide", "address", "part")
            ),
            self.read.payload.tag.eq(second),
            self.asked.eq(Cat(asked & ~second, asked & second)),
            done.eq(Mux(job.asks.any(), asked & (second | ~job.asks[1]), valid & space)),
            self.words.valid.eq(done & job.passes),
            self.words.payload.eq(job.words),
            self.results.valid.eq(done & job.writes),
            self.results.payload.eq(job.result),
        ]
        with m.If(asked):
            m.d.sync += again.eq(job.asks.all() & ~again)
        m.d.comb += source.ready.eq(done)

    def _walk(self, m: Module, into: Any) -> None:
        """Iterate over groups and rows, or over positions, sentences and groups; output a job at each step.

        Longer than most functions, as all states of the state machine share the counters.
        """
        spec, operation = self.spec, self.operation
        step, free, job = into.valid, into.ready, into.payload
        chosen = settings(operation, Mux)
        flags = {name: Signal(name=name, reset_less=True) for name in ("sums", "positions", "biased", "joined")}
        positions = flags["positions"]
        held = Signal.like(operation, reset_less=True)
        # index of the features' last chunk, and of the last chunk in its memory row
        chunks = exact_log2(spec.columns)
        last, end, group = (
            Signal(len(operation.features) - chunks, name=name, reset_less=True) for name in ("last", "end", "group")
        )
        final = (operation.features - 1)[chunks : len(operation.features)]
        fill = Mux(operation.destination_wide, 0, spec.layout.parts - 1)
        # index of the last row or sentence: of the plus sign, of both signs
        names = ("half", "whole", "count", "row")
        half, whole, count, row = (Signal(range(spec.sums), name=name, reset_less=True) for name in names)
        side, behind, position = Signal(), Signal(), Signal(range(spec.sums))
        of_side = Mux(chosen.positions, operation.sentences, operation.rows)
        with m.If(self.begin):
            m.d.sync += [
                held.eq(operation),
                *(flag.eq(getattr(chosen, name)) for name, flag in flags.items()),
                last.eq(final),
                end.eq(final | fill),
                half.eq(of_side - 1),
                whole.eq((of_side << 1) - 1),
                Cat(count, side, position).eq(0),
            ]
        turns, counts, start = Signal(), Signal(), Signal()
        ends = count == whole
        with m.If(counts):
            m.d.sync += [count.eq(Mux(ends, 0, count + 1)), side.eq(~ends & (side | (count == half)))]
        with m.If(start):
            m.d.sync += [group.eq(0), behind.eq(0)]
        with m.Elif(turns):
            m.d.sync += [group.eq(group + 1), behind.eq(behind | (group == last))]
        entry, mark = self.sentences.payload, Signal()
        over, final_position = group == end, position == held.longest - 1
        with m.FSM():
            with m.State("idle"), m.If(self.begin):
                m.next = "next"
            with m.State("next"):
                m.d.comb += self.sentences.ready.eq(positions)
                m.d.sync += row.eq(entry.first + position)
                with m.If(~positions | (self.sentences.valid & (entry.length > position))):
                    m.d.comb += start.eq(1)
                    m.next = "walk"
                with m.Elif(self.sentences.valid):
                    m.d.comb += counts.eq(1)
                    with m.If(ends):
                        m.next = "mark"
            with m.State("walk"), m.If(free):
                m.d.comb += [
                    step.eq(1),
                    turns.eq(positions | ends),
                    counts.eq(~positions | over),
                ]
                with m.If(over & (positions | ends)):
                    m.next = "next"
                    with m.If(ends):
                        m.next = "mark"
            with m.State("mark"), m.If(free):
                m.d.comb += [step.eq(1), mark.eq(1)]
                m.d.sync += position.eq(position + 1)
                m.next = "idle"
                with m.If(positions & ~final_position):
                    m.next = "next"
        m.d.comb += [
            Value.cast(job.words).eq(Cat(group[: len(job.words.group)], side, mark)),
            job.result.partial.eq(group == last),
            job.result.empty.eq(behind & ~mark),
            job.result.end.eq(mark),
            job.asks.eq(Cat(~flags["sums"], flags["joined"]) & (~mark & ~behind).replicate(2)),
            job.passes.eq(Mux(mark, flags["biased"], ~behind)),
            job.writes.eq(~mark | ~positions | final_position),
        ]
        number = Mux(positions, row, count)
        for name, place in (("source", job.source), ("second", job.second), ("destination", job.result.place)):
            m.submodules[name] = line = ChunkLine(spec.layout)
            m.d.comb += [
                line.start.eq(start),
                line.wide.eq(held[f"{name}_wide"]),
                line.base.eq(held[name]),
                line.advance.eq(turns),
                line.stride.eq(held.stride),
                place.wide.eq(line.in_wide),
                place.address.eq(line.line + number),
                place.part.eq(line.part),
            ]
