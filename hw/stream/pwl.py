"""RTL of piecewise linear functions: block RAM holds the segments; a DSP multiplies and rounds."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.stream.pwl_memory import FunctionMemory
from ..ports import shape
from ..primitives.pipeline import Pipeline


class PiecewiseLinear(wiring.Component):
    """Evaluate one of a table's functions for `lanes` arguments a cycle, without handshake.

    A lane is a fully registered DSP48E2: slope times t, plus a constant that includes half an output LSB. If all
    dropped bits of the sum are 0, it was a tie, and the result's lowest bit is cleared. Two lanes share a memory.

    Attributes
    ----------
    function : In, range(number of functions)
        Number of the function, for all lanes.
    argument : In, array of lanes
        Arguments as in `golden.stream.functions.PiecewiseLinear`; beyond the last segment the result is arbitrary.
    o : Out, array of lanes, the functions' result
        Results, rounded half to even and saturated, `LATENCY` cycles later.
    """

    LATENCY = 5

    def __init__(self, table: FunctionMemory, lanes: int) -> None:
        self.table, self.lanes = table, lanes
        first = table.functions[0]
        self.segment_bits = first.segment_bits
        argument = unsigned(self.segment_bits + max((item.segments - 1).bit_length() for item in table.functions))
        super().__init__(
            {
                "function": In(range(len(table.functions))),
                "argument": In(data.ArrayLayout(argument, lanes)),
                "o": Out(data.ArrayLayout(shape(first.result), lanes)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for first in range(0, self.lanes, 2):
            lanes = range(first, min(first + 2, self.lanes))
            rom = memory.Memory(
                shape=self.table.width,
                depth=len(self.table.contents),
                init=self.table.contents,
                attrs={"rom_style": "block"},
            )
            m.submodules[f"table{first // 2}"] = rom
            for lane in lanes:
                port = rom.read_port()
                m.d.comb += port.addr.eq(self._address(self.argument[lane]))
                m.d.comb += self.o[lane].eq(self._lane(m, lane, port.data))
        return m

    def _address(self, argument: Value) -> Value:
        """Address of a segment: the number of the function above the bits of the segment."""
        segment = argument[self.segment_bits :]
        bits = (len(self.table.contents) - 1).bit_length()
        addresses = []
        for first, function in zip(self.table.firsts, self.table.functions, strict=True):
            low = (function.segments - 1).bit_length()
            addresses.append(Cat(segment[:low], Const(first >> low, bits - low)))
        chosen = addresses[0]
        for number, address in enumerate(addresses[1:], start=1):
            chosen = Mux(self.function == number, address, chosen)
        return chosen

    def _lane(self, m: Module, lane: int, word: Value) -> Value:
        """Value of a lane, from the memory word of its segment, read a cycle after the argument."""
        table, result = self.table, self.table.functions[0].result
        low, high = table.shapes
        pipeline = Pipeline(m, {"argument": 0, "word": 1, "operands": 1})
        step = self.argument[lane][: self.segment_bits]
        factor = pipeline.place("argument", step, f"step{lane}", reset_less=True).at("operands")
        slope = Signal(signed(high.bits + (not high.signed)), name=f"slope{lane}", reset_less=True)
        early, constant = (
            Signal(signed(low.bits + (not low.signed)), name=f"{name}{lane}", reset_less=True)
            for name in ("early", "constant")
        )
        product = Signal(signed(len(slope) + self.segment_bits + 1), name=f"product{lane}", reset_less=True)
        width = max(len(product), len(constant) + table.aligned) + 1
        total = Signal(signed(width), name=f"total{lane}", reset_less=True)
        value = Signal(shape(result), name=f"value{lane}", reset_less=True)
        below, above = (Value.cast(part) for part in (word[: low.bits], word[low.bits :]))
        m.d.sync += [
            early.eq(below.as_signed() if low.signed else below),
            slope.eq(above.as_signed() if high.signed else above),
            constant.eq(early),
            product.eq(slope * factor),
            total.eq(product + (constant << table.aligned)),
            value.eq(self._rounded(total)),
        ]
        return value

    def _rounded(self, total: Signal) -> Value:
        drop, result = self.table.drop, self.table.functions[0].result
        tie = ~total[:drop].any()
        rounded = Cat(total[drop] & ~tie, total[drop + 1 :]).as_signed()
        if not self.table.saturates:
            return rounded
        return Mux(rounded > result.maximum, result.maximum, Mux(rounded < result.minimum, result.minimum, rounded))
