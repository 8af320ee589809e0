"""RTL of exact sums of a row's values and squares."""

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.norms import LARGEST_HIDDEN, Q11_16
from ...primitives.pipeline import Pipeline, delayed

LOW = 17
"""Bits of a value's lower part, an unsigned factor in the narrow port of a DSP."""
_GROWTH = (LARGEST_HIDDEN - 1).bit_length()
SUM = signed(Q11_16.width + _GROWTH)
SQUARES = 2 * Q11_16.width - 1 + _GROWTH
"""Width of a sum of squares, unsigned; for the most negative values it is a power of two."""


class RowSums(wiring.Component):
    """Sum the values, and the squares, of each row: a word of lanes a cycle, without handshake.

    A square takes two products. Each lane adds its products to the previous lane's partial sum, a cycle later than the
    previous lane.

    Attributes
    ----------
    enable : In(1)
        `value`, `first` and `last` are valid.
    value : In, array of lanes of Q11.16
        Values, 0 beyond the row.
    first, last : In(1)
        The word is the first, the last of its row.
    valid : Out(1)
        High `latency` cycles after a row's last word.
    sum : Out(SUM)
        Sum of the row's values, with `valid`.
    squares : Out(SQUARES)
        Sum of the row's squares, with `valid`.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(
            {
                "enable": In(1),
                "value": In(data.ArrayLayout(signed(Q11_16.width), lanes)),
                "first": In(1),
                "last": In(1),
                "valid": Out(1),
                "sum": Out(SUM),
                "squares": Out(SQUARES),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a row's last word to `valid`: operands, products, a sum for each lane, square, row."""
        return self.lanes + 4

    def elaborate(self, platform: object) -> Module:
        m = Module()
        pipeline = Pipeline(m, {"word": 0, "operands": 1, "products": 1, "cascade": self.lanes, "square": 1, "row": 1})
        growth = (self.lanes - 1).bit_length()
        low, high, total = Const(0, 1), Const(0, 1), Const(0, 1)
        for lane in range(self.lanes):
            value = Signal(signed(Q11_16.width), name=f"value{lane}", reset_less=True)
            m.d.sync += value.eq(delayed(m, self.value[lane], lane, f"early{lane}", reset_less=True))
            factors = value[:LOW], value[LOW:].as_signed()
            parts = []
            for name, factor, before in zip(("low", "high"), factors, (low, high), strict=True):
                product = Signal(signed(len(value) + len(factor)), name=f"{name}_product{lane}", reset_less=True)
                cascade = Signal(signed(len(product) + growth), name=f"{name}{lane}", reset_less=True)
                m.d.sync += [product.eq(value * factor), cascade.eq(product + before)]
                parts.append(cascade)
            low, high = parts
            sums = Signal(signed(Q11_16.width + growth), name=f"sum{lane}", reset_less=True)
            m.d.sync += sums.eq(value + total)
            total = sums
        square = Signal(signed(len(high) + LOW + 1), reset_less=True)
        m.d.sync += square.eq((high << LOW) + low)
        # the sum of values has no product and square stages, so it is delayed
        word = delayed(m, total, 2, "word", reset_less=True)
        flags = {
            name: pipeline.place("word", getattr(self, name), name, reset_less=name != "enable").at("square")
            for name in ("enable", "first")
        }
        row, squares = Signal(SUM, reset_less=True), Signal(SQUARES, reset_less=True)
        with m.If(flags["enable"]):
            m.d.sync += [
                row.eq(Mux(flags["first"], 0, row) + word),
                squares.eq(Mux(flags["first"], 0, squares) + square),
            ]
        ends = Signal(self.latency)
        m.d.comb += [
            self.valid.eq(pipeline.place_flag("word", self.enable & self.last, ends).at("row")),
            self.sum.eq(row),
            self.squares.eq(squares),
        ]
        return m
