"""RTL of the division of rows by their L2 norm, from chunks to chunks."""

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
"""Bits of a result from -1 to 1, with margin for rounding."""


class UnitRows(wiring.Component):
    """Accept the chunks of a row three times, in three passes, and output the chunks of results in the third.

    Results are queued; a chunk is accepted only if the queue has space for its result.

    Attributes
    ----------
    step : In(range(PASSES))
        Number of the pass; changes only while `idle`.
    begin : In(1)
        Clear the state of the previous row; only while `idle` is high.
    i : In, stream of columns of Q11.16
        Chunks; values beyond the row are 0.
    o : Out, stream of columns of Q11.16
        Results of the third pass, from -1 to 1.
    idle : Out(1)
        The result of the pass is ready for the next pass, and all outputs were accepted.
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
        # timing: `i.ready` is slow, so it is a register beside both counts
        ready = Signal(init=1)
        results, index = Signal((columns - UNIT_LANES) * _RESULT, reset_less=True), Signal(range(words))
        chunk, taken, leaves = Signal(columns * _RESULT), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(ready),
            taken.eq(self.i.valid & self.i.ready),
            leaves.eq(self.o.valid & self.o.ready),
            lanes.step.eq(self.step),
            lanes.begin.eq(self.begin),
            lanes.enable.eq(filled.any()),
            lanes.value.eq(line[: UNIT_LANES * width]),
            chunk.eq(Cat(results, *(value[:_RESULT] for value in lanes.o))),
            queue.i.valid.eq(lanes.valid & (index == words - 1)),
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
            # number of free places in the result queue
            room.eq(room + Cat(fills ^ leaves, (fills & ~leaves).replicate(len(room) - 1))),
            # low until a chunk's last word; `taken` settles late in the cycle, so it selects last
            ready.eq(
                Mux(
                    taken,
                    Const(0) if words > 1 else ~final | leaves | (room != 1),
                    (filled <= 2) & (leaves | room.any()) if words > 1 else leaves | room.any(),
                )
            ),
        ]
        with m.If(lanes.valid):
            m.d.sync += [index.eq(Mux(index == words - 1, 0, index + 1)), results.eq(chunk[UNIT_LANES * _RESULT :])]
        probe(self, filled=filled, waits=waits, room=room)
        return m
