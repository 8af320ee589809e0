"""RTL of the division of rows by their L2 norm: words of chunks to the lanes, and their results to chunks."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .....golden.fixed import Q8_16
from .....golden.stream.norms import Q11_16
from .....golden.stream.values.pool_head import PASSES, UNIT_LANES, PoolHeadSpec
from ....ports import shape
from ....primitives.fifo import Fifo
from ....probe import probe
from .unit_lanes import UnitLanes

_RESULT = Q8_16.fraction + 2
"""Bits of a result, which is from -1 to 1 but for what is rounded."""


class UnitRows(wiring.Component):
    """Take each row's chunks three times, and give those of the results the third time.

    Results wait in a queue: a chunk is taken only where it has room for what it becomes.

    Attributes
    ----------
    step : In(range(PASSES))
        Number of the pass: it changes while `idle`.
    begin : In(1)
        Forget the row before; while `idle`.
    i : In, stream of columns of Q11.16
        Chunks; values beyond the row are 0.
    o : Out, stream of columns of Q11.16
        Of the third pass the results, from -1 to 1.
    idle : Out(1)
        What the pass gives to the next one is there, and all of its results were taken.
    """

    def __init__(self, spec: PoolHeadSpec) -> None:
        self.spec = spec
        chunk = stream.Signature(data.ArrayLayout(shape(Q11_16), spec.columns))
        super().__init__({"step": In(range(PASSES)), "begin": In(1), "i": In(chunk), "o": Out(chunk), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, columns, width = self.spec, self.spec.columns, Q11_16.width
        words = columns // UNIT_LANES
        m.submodules.lanes = lanes = UnitLanes(spec)
        m.submodules.queue = queue = Fifo(columns * _RESULT, spec.unit_chunks)
        line, filled = Signal(columns * width, reset_less=True), Signal(range(words + 1))
        waits, room = Signal(range(spec.pass_latency + 1)), Signal(range(spec.unit_chunks + 1), init=spec.unit_chunks)
        # a flag beside both counts: what gives a chunk waits for it
        ready = Signal(init=1)
        results, at = Signal((columns - UNIT_LANES) * _RESULT, reset_less=True), Signal(range(words))
        chunk, taken, given = Signal(columns * _RESULT), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(ready),
            taken.eq(self.i.valid & self.i.ready),
            given.eq(self.o.valid & self.o.ready),
            lanes.step.eq(self.step),
            lanes.begin.eq(self.begin),
            lanes.enable.eq(filled.any()),
            lanes.value.eq(line[: UNIT_LANES * width]),
            chunk.eq(Cat(results, *(value[:_RESULT] for value in lanes.o))),
            queue.i.valid.eq(lanes.valid & (at == words - 1)),
            queue.i.payload.eq(chunk),
            self.o.valid.eq(queue.o.valid),
            queue.o.ready.eq(self.o.ready),
            *(
                value.eq(queue.o.payload[number * _RESULT : (number + 1) * _RESULT].as_signed())
                for number, value in enumerate(self.o.payload)
            ),
            self.idle.eq(~(filled.any() | waits.any() | (room != spec.unit_chunks))),
        ]
        final = self.step == PASSES - 1
        fills = taken & final
        m.d.sync += [
            filled.eq(Mux(taken, words, Mux(filled.any(), filled - 1, 0))),
            waits.eq(Mux(filled.any(), spec.pass_latency, Mux(waits.any(), waits - 1, 0))),
            line.eq(Mux(taken, Cat(self.i.payload), line >> UNIT_LANES * width)),
            # chunks of results that have a place
            room.eq(room + Cat(fills ^ given, (fills & ~given).replicate(len(room) - 1))),
            # behind a chunk there is no room before its last word; what takes one is late
            ready.eq(
                Mux(
                    taken,
                    Const(0) if words > 1 else ~final | given | (room != 1),
                    (filled <= 2) & (given | room.any()) if words > 1 else given | room.any(),
                )
            ),
        ]
        with m.If(lanes.valid):
            m.d.sync += [at.eq(Mux(at == words - 1, 0, at + 1)), results.eq(chunk[UNIT_LANES * _RESULT :])]
        probe(self, filled=filled, waits=waits, room=room)
        return m
