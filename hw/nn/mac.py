"""The multipliers: one a lane and column. Across the lanes they give sums, within a lane they accumulate."""

from amaranth.hdl import Cat, EnableInserter, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.fixed import Q4_12, Q8_16, accumulator_width
from ...golden.nn.forward import PRODUCT_FRACTION
from ...golden.nn.mac import MacSpec
from ..ports import elements, members
from ..primitives.adder_tree import adder_tree
from ..primitives.pipeline import delayed
from ..primitives.rounding import RoundSaturate

ACTIVATION, PARAMETER = signed(Q8_16.width), signed(Q4_12.width)
PRODUCT = Q8_16.width + Q4_12.width


class MacArray(wiring.Component):
    """Fixed latency, one word a cycle, no handshake.

    `x` and `w` must be registers: with the multiplier's and the accumulator's they make a DSP48E2.

    Parameters
    ----------
    lanes, columns : int
    terms : int
        Most products of a sum across.
    batch : int
        Most products of a sum within.
    together : int
        Words of `x`, 1 or 2; with two the first half of the columns multiplies one, the second half the other.

    Attributes
    ----------
    x, w
        Word by word; lane by lane, a parameter for each column.
    enable
        The word counts.
    within
        Each product is added to its own multiplier's sum; `sums` has them while `complete`.
    first, last
        Of the words of a sum.
    paired
        Only with two words together: a sum across is of a column of the first half and its fellow of the second;
        those of the second half are then their biases alone.
    bias
        Q4.12, of the first word's sum across.
    valid, o, clipped
        Sums across, narrowed to Q8.16, `latency` cycles after their last word.
    """

    def __init__(self, lanes: int, columns: int, terms: int, batch: int, together: int = 1) -> None:
        self.lanes, self.columns, self.together = lanes, columns, together
        self.half = columns // together
        self.width = accumulator_width(Q8_16, Q4_12, terms) + 1
        self.within_width = accumulator_width(Q8_16, Q4_12, batch)
        self.levels = exact_log2(lanes)
        self.ahead = 2 + self.levels + (together == 2)
        self.latency = self.ahead + 1 + RoundSaturate.LATENCY
        super().__init__(
            {
                "x": In(data.ArrayLayout(ACTIVATION, lanes * together)),
                "w": In(data.ArrayLayout(PARAMETER, lanes * columns)),
                "enable": In(1),
                "within": In(1),
                "first": In(1),
                "last": In(1),
                **({"paired": In(1)} if together == 2 else {}),
                "bias": In(data.ArrayLayout(PARAMETER, columns)),
                "valid": Out(1),
                "o": Out(data.ArrayLayout(ACTIVATION, columns)),
                "clipped": Out(columns),
                "sums": Out(data.ArrayLayout(signed(self.within_width), lanes * columns)),
                "complete": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        restart = delayed(m, ~self.within | self.first, 1, "restart")
        move = delayed(m, self.enable, 1, "move")
        m.d.comb += self.complete.eq(delayed(m, self.enable & self.within & self.last, 2, "complete"))
        products: list[Value] = []
        for place in range(self.lanes * self.columns):
            lane, column = divmod(place, self.columns)
            product = Signal(signed(PRODUCT), name=f"product{place}")
            total = Signal(signed(self.within_width), name=f"total{place}")
            m.d.sync += product.eq(self.x[column // self.half * self.lanes + lane] * self.w[place])
            with m.If(move):
                m.d.sync += total.eq(product + Mux(restart, 0, total))
            m.d.comb += self.sums[place].eq(total)
            products.append(total[:PRODUCT].as_signed())
        ahead = self.ahead
        used = self.enable & ~self.within
        first = delayed(m, self.first, ahead, "first")
        step, last = delayed(m, used, ahead, "step"), delayed(m, used & self.last, ahead, "last")
        bias = delayed(m, self.bias, ahead, "bias")
        valid = Signal()
        m.d.sync += valid.eq(last)
        m.d.comb += self.valid.eq(delayed(m, valid, RoundSaturate.LATENCY, "valid"))
        trees = [adder_tree(m, products[column :: self.columns], f"tree{column}") for column in range(self.columns)]
        if self.together == 2:
            trees = self._paired(m, trees)
        clipped = []
        for column, tree in enumerate(trees):
            total = Signal(signed(self.width), name=f"sum{column}")
            start = Cat(Value.cast(0)[:1].replicate(Q8_16.fraction), bias[column]).as_signed()
            with m.If(step):
                m.d.sync += total.eq(Mux(first, start, total) + tree)
            m.submodules[f"narrow{column}"] = narrow = RoundSaturate(
                self.width, PRODUCT_FRACTION - Q8_16.fraction, Q8_16
            )
            m.d.comb += [narrow.i.eq(total), self.o[column].eq(narrow.o)]
            clipped.append(narrow.clipped)
        m.d.comb += self.clipped.eq(Cat(clipped))
        return m

    def _paired(self, m: Module, trees: list[Value]) -> list[Value]:
        """Behind another register: the second half's added to the first's, or all as they are."""
        paired = delayed(m, self.paired, self.ahead - 1, "paired")
        lower, upper = [], []
        for column, (own, fellow) in enumerate(zip(trees[: self.half], trees[self.half :], strict=True)):
            both = Signal(signed(len(own) + 1), name=f"both{column}")
            rest = Signal.like(fellow, name=f"rest{column}")
            m.d.sync += [both.eq(own + Mux(paired, fellow, 0)), rest.eq(Mux(paired, 0, fellow))]
            lower.append(both)
            upper.append(rest)
        return lower + upper


class Mac(wiring.Component):
    """One word a cycle. All of the array waits while a sum is on offer and not taken."""

    def __init__(self, spec: MacSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        fields = {item.name: item for item in spec.streams()["i"].fields}
        given = {name: elements(getattr(self.i.payload, name), item) for name, item in fields.items()}
        array = MacArray(spec.lanes, spec.columns, spec.terms, spec.batch)
        move = Signal()
        m.submodules.array = EnableInserter(move)(array)
        m.d.comb += [
            self.o.valid.eq(array.valid if spec.across else array.complete),
            move.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(move),
            array.within.eq(not spec.across),
        ]
        taken = Signal()
        with m.If(move):
            m.d.sync += taken.eq(self.i.valid)
        m.d.comb += array.enable.eq(taken)
        # within, a column's parameter goes to all lanes
        operands = {
            "x": given["x"],
            "w": given["w"] * (1 if spec.across else spec.lanes),
            "bias": given.get("bias", []),
        }
        operands |= {name: given[name] for name in ("first", "last")}
        for name, values in operands.items():
            for number, value in enumerate(values):
                port = getattr(array, name)
                held = Signal(value.shape(), name=f"{name}{number}", reset_less=True)
                with m.If(move):
                    m.d.sync += held.eq(value)
                m.d.comb += (port if name in ("first", "last") else port[number]).eq(held)
        name, found = ("y", array.o) if spec.across else ("sum", array.sums)
        results = elements(getattr(self.o.payload, name), spec.streams()["o"].fields[0])
        m.d.comb += [result.eq(found[number]) for number, result in enumerate(results)]
        return m
