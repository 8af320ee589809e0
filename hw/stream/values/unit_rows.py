"""RTL of the division of rows by their L2 norm: words of chunks to the lanes, and their results to chunks."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q8_16
from ....golden.stream.norms import Q11_16
from ....golden.stream.pwl_memory import FunctionMemory
from ....golden.stream.values.pool_head import UNIT_LANES
from ...ports import shape
from .unit_lanes import UnitLanes

_RESULT = Q8_16.fraction + 2
"""Bits of a result, which is from -1 to 1 but for what is rounded."""


class UnitRows(wiring.Component):
    """Take each row's chunks three times, and give those of the results the third time.

    All of it waits while a chunk of results is not taken.

    Parameters
    ----------
    table : FunctionMemory
        Inverse roots of a mantissa and of twice a mantissa.
    features : int
        Most values of a row.
    columns : int
        Values of a chunk.

    Attributes
    ----------
    step : In(range(3))
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

    def __init__(self, table: FunctionMemory, features: int, columns: int) -> None:
        self.table, self.features, self.columns = table, features, columns
        chunk = stream.Signature(data.ArrayLayout(shape(Q11_16), columns))
        super().__init__({"step": In(range(3)), "begin": In(1), "i": In(chunk), "o": Out(chunk), "idle": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words, width = self.columns // UNIT_LANES, Q11_16.width
        lanes, move = UnitLanes(self.table, self.features), Signal()
        m.submodules.lanes = EnableInserter(move)(lanes)
        line, filled = Signal(self.columns * width, reset_less=True), Signal(range(words + 1))
        waits = Signal(range(lanes.latency + 1))
        results, at, whole = Signal(self.columns * _RESULT, reset_less=True), Signal(range(words)), Signal()
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
                waits.eq(Mux(filled.any(), lanes.latency, Mux(waits.any(), waits - 1, 0))),
                line.eq(Mux(self.i.ready, Cat(self.i.payload), line >> UNIT_LANES * width)),
                whole.eq(lanes.valid & (at == words - 1)),
            ]
        with m.If(move & lanes.valid):
            m.d.sync += [
                at.eq(Mux(at == words - 1, 0, at + 1)),
                results.eq(Cat(results[UNIT_LANES * _RESULT :], *(value[:_RESULT] for value in lanes.o))),
            ]
        return m
