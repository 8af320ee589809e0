"""RTL of the division of rows by their L2 norm: words of chunks to the lanes, and their results to chunks."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q8_16
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.pool_head import PASSES, UNIT_LANES, PoolHeadSpec
from ...ports import shape
from .unit_lanes import UnitLanes

_RESULT = Q8_16.fraction + 2
"""Bits of a result, which is from -1 to 1 but for what is rounded."""


class UnitRows(wiring.Component):
    """Take each row's chunks three times, and give those of the results the third time.

    All of it waits while a chunk of results is not taken.

    Parameters
    ----------
    spec : PoolHeadSpec
        Values of a chunk, most features of a row, the table of inverse roots.

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
        columns, width = self.spec.columns, Q11_16.width
        words = columns // UNIT_LANES
        lanes, move = UnitLanes(self.spec), Signal()
        m.submodules.lanes = EnableInserter(move)(lanes)
        line, filled = Signal(columns * width, reset_less=True), Signal(range(words + 1))
        waits = Signal(range(self.spec.pass_latency + 1))
        results, at, whole = Signal(columns * _RESULT, reset_less=True), Signal(range(words)), Signal()
        m.d.comb += [
            move.eq(~whole | self.o.ready),
            self.i.ready.eq(move & (filled <= 1)),
            lanes.step.eq(self.step),
            lanes.begin.eq(self.begin),
            lanes.enable.eq(filled.any()),
            lanes.value.eq(line[: UNIT_LANES * width]),
            self.o.valid.eq(whole),
            *(
                value.eq(results[number * _RESULT : (number + 1) * _RESULT].as_signed())
                for number, value in enumerate(self.o.payload)
            ),
            self.idle.eq(~(filled.any() | waits.any() | whole)),
        ]
        with m.If(move):
            m.d.sync += [
                filled.eq(Mux(self.i.valid & self.i.ready, words, Mux(filled.any(), filled - 1, 0))),
                waits.eq(Mux(filled.any(), self.spec.pass_latency, Mux(waits.any(), waits - 1, 0))),
                line.eq(Mux(self.i.ready, Cat(self.i.payload), line >> UNIT_LANES * width)),
                whole.eq(lanes.valid & (at == words - 1)),
            ]
        with m.If(move & lanes.valid):
            m.d.sync += [
                at.eq(Mux(at == words - 1, 0, at + 1)),
                results.eq(Cat(results[UNIT_LANES * _RESULT :], *(value[:_RESULT] for value in lanes.o))),
            ]
        return m
