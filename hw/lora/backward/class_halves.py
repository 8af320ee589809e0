"""FIFO between two logits a cycle, a class of each half, and one logit a cycle in class order."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, fifo, wiring
from amaranth.lib.wiring import In, Out

from ...nn.interfaces import ACTIVATION, LOGIT


class ClassHalves(wiring.Component):
    """FIFO for each half of the classes, read alternately, half a sample at a time.

    Parameters
    ----------
    depth : int
        Logits of each FIFO.
    margin : int
        Free logits of each FIFO at which `room` is high.

    Attributes
    ----------
    w_en : In(1)
        Write a class of each half; only with enough room.
    w_data : In, array of two Q8.16
        Logits.
    w_ends : In, array of two bits
        Last class of the half.
    w_upper : In(1)
        The upper half has a class.
    room : Out(1)
        Each FIFO has room for `margin` logits.
    r_rdy : Out(1)
        `r_data` is valid.
    r_en : In(1)
        Take `r_data`.
    r_data : Out, as the payload of `LOGIT`
    """

    def __init__(self, depth: int, margin: int) -> None:
        self.depth, self.margin = depth, margin
        super().__init__(
            {
                "w_en": In(1),
                "w_data": In(data.ArrayLayout(ACTIVATION, 2)),
                "w_ends": In(data.ArrayLayout(1, 2)),
                "w_upper": In(1),
                "room": Out(1),
                "r_rdy": Out(1),
                "r_en": In(1),
                "r_data": Out(LOGIT.members["payload"].shape),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        halves = [fifo.SyncFIFOBuffered(width=ACTIVATION.width + 1, depth=self.depth) for _ in range(2)]
        m.submodules.lower, m.submodules.upper = halves
        upper = Signal()
        for number, half in enumerate(halves):
            m.d.comb += [
                half.w_en.eq(self.w_en & (self.w_upper if number else 1)),
                half.w_data.eq(Cat(Value.cast(self.w_data[number]), self.w_ends[number])),
                half.r_en.eq(self.r_en & (upper == number)),
            ]
        chosen = Mux(upper, halves[1].r_data, halves[0].r_data)
        m.d.comb += [
            self.room.eq(Cat(half.level <= self.depth - self.margin for half in halves).all()),
            self.r_rdy.eq(Mux(upper, halves[1].r_rdy, halves[0].r_rdy)),
            self.r_data.logit.eq(chosen[: ACTIVATION.width].as_signed()),
            self.r_data.last.eq(upper & chosen[-1]),
        ]
        with m.If(self.r_en & self.r_rdy & chosen[-1]):
            m.d.sync += upper.eq(~upper)
        return m
