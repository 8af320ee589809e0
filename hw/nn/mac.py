"""Array of multipliers, one a lane and column, with sums across the lanes or within each multiplier."""

from amaranth.hdl import Cat, Const, EnableInserter, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.nn.array import latency
from ...golden.nn.mac import MacSpec
from ..ports import elements, members
from ..primitives.adder_tree import adder_tree
from ..primitives.pipeline import Pipeline, delayed
from ..primitives.registers import register
from ..primitives.rounding import RoundSaturate
from .array_port import NETWORK_FORMATS, ArrayPort, OperandFormats, SumParts

assert RoundSaturate.LATENCY == latency.ROUNDING


class MacArray(wiring.Component):
    """Multiply and add a word a cycle at a fixed latency, without handshake.

    Operand registers, multiplier and accumulator are one DSP48E2.

    Parameters
    ----------
    lanes, columns : int
        Size of the array; `lanes` is a power of two.
    terms : int
        Most products of a sum across the lanes.
    batch : int
        Most products of a sum within a multiplier.
    words_per_cycle : int
        Words of `x`, 1, 2 or 4; each is multiplied by an equal part of the columns, in order.
    parts : int
        0, or lanes / columns: sums within the first column can be rounded as sums across, `columns` lanes a cycle.
    halves : bool
        Each half of the lanes can have its own sum in each column.
    formats : OperandFormats
        Formats of the operands; signed, of at most 27 and 18 bits for one DSP48E2 a multiplier.

    Attributes
    ----------
    port : In, `ArrayPort`
        Operands and sums.
    bias : In, array of columns numbers in the format of `w`
        Biases of a sum across, `bias_cycles` after its first word; biases of further parts follow.
    paired : In, 1
        Only with several words a cycle, with the word: sums across add corresponding columns of all parts; sums of the
        other parts are then their biases.
    parts : In, `SumParts`, only with parts or halves
        Sums in parts.
    clipped : Out, a bit for each column
        The sum in `port.y` was clipped, in the cycle of `port.valid`.
    """

    def __init__(
        self,
        lanes: int,
        columns: int,
        terms: int,
        batch: int,
        words_per_cycle: int = 1,
        parts: int = 0,
        halves: bool = False,
        formats: OperandFormats = NETWORK_FORMATS,
    ) -> None:
        self.lane_parts, self.halves, self.formats = parts, halves, formats
        self.has_parts = parts > 0 or halves
        self.lanes, self.columns, self.words_per_cycle = lanes, columns, words_per_cycle
        self.ranks = columns // words_per_cycle
        self.width = formats.sum_width(terms) + 1
        self.within_width = formats.sum_width(batch)
        self.latency = latency.across_latency(lanes, words_per_cycle)
        self.bias_cycles = latency.bias_cycles(lanes, words_per_cycle)
        self.interface = ArrayPort(lanes, columns, self.within_width, words_per_cycle, formats)
        ports = {
            "port": In(self.interface),
            "bias": In(data.ArrayLayout(signed(formats.w.width), columns)),
            "clipped": Out(columns),
        }
        if words_per_cycle > 1:
            ports["paired"] = In(1)
        if self.has_parts:
            ports["parts"] = In(SumParts(parts > 0, halves))
        super().__init__(ports)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        port = self.port
        x = [self._operand(m, value, f"x{number}") for number, value in enumerate(port.x)]
        w = [self._operand(m, value, f"w{number}") for number, value in enumerate(port.w)]
        m.d.comb += [into.eq(value) for into, value in zip(port.operands, x, strict=True)]
        flags = {name: getattr(port, name) for name in ("enable", "within", "first", "last")}
        pipeline = self._pipeline(m)
        enable, within, first, last = (
            pipeline.place("inputs", flag, name).at("operands") for name, flag in flags.items()
        )
        restart = pipeline.place("operands", ~within | first, "restart").at("products")
        move = pipeline.place("operands", enable, "move").at("products")
        completes = pipeline.place("operands", enable & within & last, "complete")
        complete, rounds = completes.at("accumulators"), Value.cast(Const(0))
        m.d.comb += [port.completing.eq(completes.at("products")), port.complete.eq(complete)]
        if self.lane_parts:
            rounded = pipeline.place("inputs", self.parts.rounds, "rounds")
            rounds = rounded.at("accumulators")
            m.d.comb += [
                port.completing.eq(completes.at("products") & ~rounded.at("products")),
                port.complete.eq(complete & ~rounds),
            ]
        products: list[Value] = []
        for number in range(self.lanes * self.columns):
            lane, column = divmod(number, self.columns)
            product = Signal(self.formats.product, name=f"product{number}", reset_less=True)
            total = Signal(signed(self.within_width), name=f"total{number}", reset_less=True)
            m.d.sync += product.eq(x[column // self.ranks * self.lanes + lane] * w[number])
            with m.If(move):
                m.d.sync += total.eq(product + Mux(restart, 0, total))
            m.d.comb += port.sums[number].eq(total)
            products.append(total[: self.formats.product.width].as_signed())
        of_columns = [products[column :: self.columns] for column in range(self.columns)]
        halved: Value = Const(0)
        further: Value = Const(0)
        rest: Value = Const(0)
        upper: list[Value] = []
        if self.halves:
            at_halves = pipeline.place("inputs", self.parts.halved, "halves").at("halves")
            trees, upper = self._halves(m, pipeline, of_columns, at_halves)
            halved = pipeline.place("halves", at_halves, "halved").at("pairs")
            further = delayed(
                m, self.parts.halved & port.enable & port.first, latency.within_latency() + 2, "half_further"
            )
        else:
            trees = [
                adder_tree(m, column_products, f"tree{column}") for column, column_products in enumerate(of_columns)
            ]
        if self.words_per_cycle > 1:
            trees = self._paired(m, pipeline, trees)
        used = enable & ~within
        names = {"sum_first": first, "step": used, "sum_last": used & last}
        first, used, last = (pipeline.place("operands", flag, name).at("pairs") for name, flag in names.items())
        if self.lane_parts:
            lanes, rounded, of_lanes, rest = self._lanes(m, complete & rounds)
            further |= of_lanes
            trees = [Mux(rounded, lane, tree) for lane, tree in zip(lanes, trees, strict=True)]
            used, first, last = used | rounded, first | rounded, last | rounded
        self._sums(m, pipeline, trees, (used, first, last), upper, halved, rest)
        if self.has_parts:
            m.d.comb += self.parts.further.eq(further)
        return m

    def _pipeline(self, m: Module) -> Pipeline:
        """Stages from inputs to rounded sums across the lanes; sums within are in the accumulators."""
        levels = self.lanes.bit_length() - 1
        before_halves = latency.LEVEL * max(levels - 1, 0)
        stages = {
            "inputs": 0,
            "operands": latency.OPERANDS,
            "products": latency.PRODUCT,
            "accumulators": latency.ACCUMULATOR,
            "halves": before_halves,
            "trees": latency.LEVEL * levels - before_halves,
            "pairs": latency.PAIR * exact_log2(self.words_per_cycle),
            "sums": latency.SUM,
            "rounded": latency.ROUNDING,
        }
        pipeline = Pipeline(m, stages)
        assert pipeline.latency("inputs", "accumulators") == latency.within_latency()
        assert pipeline.latency("inputs", "rounded") == self.latency
        return pipeline

    def _halves(
        self, m: Module, pipeline: Pipeline, of_columns: list[list[Value]], halved: Value
    ) -> tuple[list[Value], list[Value]]:
        """Sums of each column's products, or of its lower half of the lanes; sums of the upper half."""
        trees, rest = [], []
        for column, products in enumerate(of_columns):
            half = self.lanes // 2
            lower, upper = (
                adder_tree(m, half_products, f"tree{column}_{name}")
                for name, half_products in (("lower", products[:half]), ("upper", products[half:]))
            )
            tree = Signal(signed(len(lower) + 1), name=f"tree{column}", reset_less=True)
            m.d.sync += tree.eq(lower + Mux(halved, 0, upper))
            trees.append(tree)
            # a cycle after the lower half, as both share the rounding
            rest.append(pipeline.place("halves", upper, f"upper{column}", reset_less=True).at("sums").as_signed())
        return trees, rest

    def _lanes(self, m: Module, start: Value) -> tuple[list[Value], Value, Value, Value]:
        """Sums of the first column's multipliers, `columns` lanes a cycle, in the cycle of a tree's sum.

        Returns sums, whether they are valid, `further`, and whether they are of a part after the first.
        """
        held = [Signal(signed(self.within_width), name=f"held{lane}", reset_less=True) for lane in range(self.lanes)]
        left = Signal(range(self.lane_parts + 1))
        with m.If(start):
            m.d.sync += [into.eq(self.port.sums[lane * self.columns]) for lane, into in enumerate(held)]
            m.d.sync += left.eq(self.lane_parts)
        with m.Else():
            m.d.sync += [into.eq(other) for into, other in zip(held, held[self.columns :], strict=False)]
            m.d.sync += left.eq(left - left.any())
        further = left.any() & (left != self.lane_parts)
        wait = latency.tree_latency(self.lanes, self.words_per_cycle) - latency.within_latency() - 1
        sums = [
            delayed(m, held[column], wait, f"lane{column}", reset_less=True).as_signed()
            for column in range(self.columns)
        ]
        return sums, delayed(m, left.any(), wait, "rounded"), further, delayed(m, further, wait, "lanes_rest")

    def _operand(self, m: Module, value: Value, name: str) -> Signal:
        """Operand register, without a reset, which `enable` has."""
        operand = Signal(value.shape(), name=name, reset_less=True)
        m.d.sync += operand.eq(value)
        return operand

    def _paired(self, m: Module, pipeline: Pipeline, trees: list[Value]) -> list[Value]:
        """Add corresponding trees of both halves, then of the first half's halves, a register a step; or pass all."""
        paired: Value = pipeline.place("inputs", self.paired, "paired").at("trees")
        behind: list[Value] = []
        for level in range(exact_log2(self.words_per_cycle)):
            half, sign = len(trees) // 2, "_again" * level
            if level:
                paired = delayed(m, paired, 1, "paired_again")
                behind = [register(m, f"passed{column}", tree) for column, tree in enumerate(behind)]
            lower, upper = list[Value](), list[Value]()
            for column, (tree, counterpart) in enumerate(zip(trees[:half], trees[half:], strict=True)):
                both = Signal(signed(len(tree) + 1), name=f"both{column}{sign}", reset_less=True)
                rest = Signal.like(counterpart, name=f"rest{column}{sign}", reset_less=True)
                m.d.sync += [both.eq(tree + Mux(paired, counterpart, 0)), rest.eq(Mux(paired, 0, counterpart))]
                lower.append(both)
                upper.append(rest)
            trees, behind = lower, upper + behind
        return trees + behind

    def _sums(
        self,
        m: Module,
        pipeline: Pipeline,
        trees: list[Value],
        flags: tuple[Value, Value, Value],
        upper: list[Value],
        halved: Value,
        rest: Value,
    ) -> None:
        """Accumulate the words of a sum across, from the bias, and round it.

        `flags` (used, first, last), `halved` and `rest` are in the cycle of the trees; `upper` has the upper halves'
        trees a cycle later.
        """
        step, first, last = flags
        bias = delayed(m, self.bias, latency.BIAS, "bias", reset_less=True)
        summed, of_upper = Signal(), Const(0)
        m.d.sync += summed.eq(last)
        complete: Value = summed
        if self.halves:
            upper_step, upper_first, upper_last = (
                delayed(m, flag & halved, 1, f"upper_{name}")
                for name, flag in zip(("step", "first", "last"), flags, strict=True)
            )
            of_upper = pipeline.place("pairs", upper_last, "of_upper").at("sums")
            complete = summed | of_upper
        m.d.comb += self.port.valid.eq(pipeline.place("sums", complete, "valid").at("rounded"))
        if self.has_parts:
            of_rest = pipeline.place("pairs", rest, "rest").at("sums") | of_upper
            m.d.comb += self.parts.rest.eq(pipeline.place("sums", of_rest, "rest_rounded").at("rounded"))
        for column, tree in enumerate(trees):
            total: Value = Signal(signed(self.width), name=f"sum{column}", reset_less=True)
            start = Cat(Value.cast(0)[:1].replicate(self.formats.x.fraction), bias[column]).as_signed()
            with m.If(step):
                m.d.sync += total.eq(Mux(first, start, total) + tree)
            if self.halves:
                other = Signal(signed(self.width), name=f"upper_sum{column}", reset_less=True)
                with m.If(upper_step):
                    m.d.sync += other.eq(Mux(upper_first, start, other) + upper[column])
                total = Mux(of_upper, other, total)
            rounding = RoundSaturate(self.width, self.formats.w.fraction, self.formats.x)
            m.submodules[f"rounding{column}"] = rounding
            m.d.comb += [
                rounding.i.eq(total),
                self.port.y[column].eq(rounding.o),
                self.clipped[column].eq(rounding.clipped),
            ]


class Mac(wiring.Component):
    """RTL of `mac`: the array alone, a word a cycle; it stalls while a sum is not taken."""

    def __init__(self, spec: MacSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        fields = {item.name: item for item in spec.streams()["i"].fields}
        inputs = {name: elements(getattr(self.i.payload, name), item) for name, item in fields.items()}
        pipeline = Module()
        pipeline.submodules.array = array = MacArray(spec.lanes, spec.columns, spec.terms, spec.batch)
        port = array.port
        move = Signal()
        m.submodules.pipeline = EnableInserter(move)(pipeline)
        m.d.comb += [
            self.o.valid.eq(port.valid if spec.across else port.complete),
            move.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(move),
            port.within.eq(not spec.across),
            port.enable.eq(self.i.valid),
            port.first.eq(inputs["first"][0]),
            port.last.eq(inputs["last"][0]),
        ]
        # within, a column's parameter goes to all lanes
        operands = ((port.x, inputs["x"]), (port.w, inputs["w"] * (1 if spec.across else spec.lanes)))
        for into, values in operands:
            m.d.comb += [into[number].eq(value) for number, value in enumerate(values)]
        for number, value in enumerate(inputs.get("bias", [])):
            later = delayed(pipeline, value, array.bias_cycles, f"bias{number}", reset_less=True)
            pipeline.d.comb += array.bias[number].eq(later)
        name, sums = ("y", port.y) if spec.across else ("sum", port.sums)
        results = elements(getattr(self.o.payload, name), spec.streams()["o"].fields[0])
        m.d.comb += [result.eq(sums[number]) for number, result in enumerate(results)]
        return m
