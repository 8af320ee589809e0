"""RTL of `nf4_quant`: a circular buffer for values, two DSPs for the thresholds, and fifteen comparators."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring

from ...golden.fixed import Q8_16
from ...golden.nf4.codec import THRESHOLD_FRACTION, THRESHOLDS
from ...golden.nf4.nf4_dequant import SCALE
from ...golden.nf4.nf4_quant import Nf4QuantSpec
from ..ports import elements, members
from ..primitives.fifo import Fifo
from ..primitives.mux_tree import mux_tree
from ..primitives.pipeline import Pipeline
from ..primitives.ram import ram

_LOW = 17
"""Number of low bits of a threshold's constant that the first DSP multiplies: its narrow operand without the sign."""


class Nf4Quant(wiring.Component):
    """Convert blocks of Q8.16 values to NF4 codes; accepts a word of one or two values a cycle.

    The first code is valid 25 cycles after the last word of its block. In steady state a block of n words takes max(n,
    16) cycles. While a code is offered and not accepted, words are accepted and thresholds computed as far as buffer
    and FIFO have space.
    """

    def __init__(self, spec: Nf4QuantSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = self.spec.address_bits
        m.submodules.values = values = ram(platform, self.spec.value_memory)
        write, read = values.write_port(), values.read_port()
        pairs = self.spec.values == 2
        block = data.StructLayout({"scale": SCALE.width, "rest": bits, **({"single": 1} if pairs else {})})
        m.submodules.ends = ends = Fifo(block, self.spec.waiting)
        self._take(m, write, read.en, ends)

        # `derived`: block whose thresholds are computed; `given_scale`: scale of the block at the output
        derived, given_scale = Signal(block, reset_less=True), Signal(SCALE.width, reset_less=True)
        move, take_over = Signal(), Signal()
        thresholds, nearly_complete = self._thresholds(m, ends, take_over, derived)

        # a block is due once its last threshold will be ready as early as its first value
        due, giving, out_of_values, first, remaining = Signal(), Signal(), Signal(init=1), Signal(2), Signal(bits)
        single = Signal(reset_less=True)
        with m.If(nearly_complete):
            m.d.sync += due.eq(1)
        with m.If(move):
            m.d.sync += [
                read.addr.eq(read.addr + giving),
                remaining.eq(remaining - 1),
                out_of_values.eq(out_of_values | (remaining == 1)),
                first.eq(Cat(out_of_values & due, first[0])),
            ]
            with m.If(out_of_values):
                m.d.sync += giving.eq(due)
                with m.If(due):
                    m.d.sync += [due.eq(0), remaining.eq(derived.rest), out_of_values.eq(derived.rest == 0)]
                    if pairs:
                        m.d.sync += single.eq(derived.single)
        m.d.comb += [read.en.eq(move & giving), take_over.eq(move & first[1])]

        borders = [Signal(signed(Q8_16.width), name=f"border_{k}", reset_less=True) for k in range(len(thresholds))]
        with m.If(take_over):
            m.d.sync += [given_scale.eq(derived.scale), Cat(borders).eq(Cat(thresholds))]
        pipeline = Pipeline(m, {"read": 0, "word": 1, "value": 1, "above": 1, "code": 1}, enable=move)
        delay = pipeline.latency("read", "code")
        flow, final, singles = Signal(delay), Signal(delay), Signal(delay)
        compared_scale, shown_scale = Signal(SCALE.width, reset_less=True), Signal(SCALE.width, reset_less=True)
        code_valid = pipeline.place_flag("read", giving, flow)
        code_last = pipeline.place_flag("read", giving & out_of_values, final)
        code = self._codes(m, move, read.data, borders)
        with m.If(move):
            m.d.sync += [compared_scale.eq(given_scale), shown_scale.eq(compared_scale)]
        result = self.o.payload
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.o.valid.eq(code_valid.at("code")),
            *(
                Value.cast(result.code).eq(code),
                result.scale.eq(shown_scale),
                result.last.eq(code_last.at("code")),
            ),
        ]
        if pairs:
            m.d.comb += result.single.eq(
                pipeline.place_flag("read", giving & out_of_values & single, singles).at("code")
            )
        return m

    def _codes(self, m: Module, move: Value, word: Value, borders: list[Signal]) -> Value:
        """Codes of a word, three cycles after its read."""
        codes: list[Value] = []
        for number in range(self.spec.values):
            name = "_of_second" if number else ""
            value = Signal(signed(Q8_16.width), name=f"value{name}", reset_less=True)
            above = Signal(len(borders), name=f"above{name}", reset_less=True)
            code = Signal(4, name=f"code{name}", reset_less=True)
            with m.If(move):
                m.d.sync += [
                    value.eq(word.word_select(number, Q8_16.width) if self.spec.values == 2 else word),
                    above.eq(Cat(value > border for border in borders)),
                    code.eq(_count(above)),
                ]
            codes.append(code)
        return Cat(codes)

    def _take(self, m: Module, write: memory.WritePort, leave: Value, ends: Fifo) -> None:
        """Store values; a cycle after a block's last value, enqueue the block's scale and its words minus 1."""
        bits = self.spec.address_bits
        word = self.i.payload
        used, enter = Signal(bits + 1), Signal()
        first, closed, count = Signal(init=1), Signal(), Signal(bits)
        largest, magnitude = Signal(Q8_16.width), Signal(Q8_16.width)
        doubled, exceeds = self._largest_of_word(m, largest)
        m.d.comb += [
            self.i.ready.eq(~used[bits] & (~closed | ends.i.ready)),
            enter.eq(self.i.valid & self.i.ready),
            write.data.eq(word.value),
            write.en.eq(enter),
            magnitude.eq(largest[1:] + largest[0]),
            ends.i.valid.eq(closed),
            ends.i.payload.scale.eq(magnitude[:-1] | magnitude[-1].replicate(SCALE.width)),
            ends.i.payload.rest.eq(count),
        ]
        m.d.sync += used.eq(used + Cat(enter ^ leave, (leave & ~enter).replicate(bits)))
        if self.spec.values == 2:
            single = Signal(reset_less=True)
            m.d.comb += ends.i.payload.single.eq(single)
            with m.If(enter):
                m.d.sync += single.eq(word.single)
        with m.If(ends.i.ready):
            m.d.sync += closed.eq(0)
        with m.If(enter):
            m.d.sync += [
                write.addr.eq(write.addr + 1),
                first.eq(word.last),
                closed.eq(word.last),
                count.eq(Mux(first, 0, count + 1)),
            ]
            with m.If(first | exceeds):
                m.d.sync += largest.eq(doubled)

    def _largest_of_word(self, m: Module, largest: Signal) -> tuple[Value, Value]:
        """Largest magnitude in the offered word, and a flag: it exceeds `largest`.

        A magnitude is given as twice the magnitude minus the sign bit: the same order, without a negation.
        """
        word = self.i.payload
        doubled: list[Value] = []
        for value in elements(word.value, self.spec.streams()["i"].fields[0]):
            sign = value[-1]
            doubled.append(Cat(sign, value[:-1] ^ sign.replicate(Q8_16.width - 1)))
        if self.spec.values == 1:
            return doubled[0], doubled[0] > largest
        # three comparisons in parallel: of the pair, and of both values with `largest`
        first, second = doubled
        chosen = ~word.single & (second > first)
        return Mux(chosen, second, first), (first > largest) | (~word.single & (second > largest))

    def _thresholds(self, m: Module, ends: Fifo, take_over: Value, derived: data.View) -> tuple[list[Signal], Value]:
        """Product of scale and each constant, one a cycle: floor((scale high + floor(scale low / 2**17)) / 2**11).

        Thresholds shift into a chain of registers. A complete chain stalls until the comparators no longer need the
        previous block's thresholds, then moves to them in one cycle. The returned flag is set three cycles before the
        chain is complete.
        """

        def register(name: str, width: int) -> Signal:
            return Signal(signed(width), name=name, reset_less=True)

        # a sixteenth step, without a threshold, for the move to the comparators
        constants = [*THRESHOLDS.tolist(), 0]
        narrow, wide = _LOW + 1, Q8_16.width
        low_factor, low_constant, low_product, low = map(
            register, ("low_factor", "low_constant", "low_product", "low"), (wide, narrow, wide + narrow, wide + narrow)
        )
        # the second DSP works a cycle later, as it adds the first DSP's sum
        high_factor, high_constant, high_product, total = map(
            register, ("high_factor", "high_constant", "high_product", "total"), (wide, narrow, wide + narrow, 48)
        )
        step, later, advance = Signal(range(len(constants))), Signal(range(len(constants))), Signal()
        last = step == len(THRESHOLDS)
        pipeline = Pipeline(m, {"step": 0, "operands": 1, "low_product": 1, "low": 1, "total": 1}, enable=advance)
        delay = pipeline.latency("step", "total")
        arrives, complete = Signal(delay), Signal(delay)
        with m.If(advance):
            m.d.sync += [
                step.eq(step + ends.o.valid),
                low_factor.eq(ends.o.payload.scale),
                low_constant.eq(mux_tree(step, [entry & ((1 << _LOW) - 1) for entry in constants])),
                low_product.eq(low_factor * low_constant),
                low.eq(low_product),
                later.eq(step),
                high_factor.eq(low_factor),
                high_constant.eq(mux_tree(later, [entry >> _LOW for entry in constants])),
                high_product.eq(high_factor * high_constant),
                total.eq(high_product + (low >> _LOW)),
            ]
        arrived = pipeline.place_flag("step", ends.o.valid & ~last, arrives)
        completed = pipeline.place_flag("step", last, complete)
        m.d.comb += [advance.eq(~completed.at("total") | take_over), ends.o.ready.eq(advance & last)]
        thresholds = [register(f"threshold_{k}", Q8_16.width) for k in range(len(THRESHOLDS))]
        with m.If(arrived.at("total")):
            threshold = total[THRESHOLD_FRACTION - _LOW :][: Q8_16.width]
            m.d.sync += Cat(thresholds).eq(Cat(*thresholds[1:], threshold))
        # a block that waits for the previous block's move is at step 3 at most
        with m.If(step[-1]):
            m.d.sync += derived.eq(ends.o.payload)
        return thresholds, completed.at("operands")


def _count(above: Value) -> Value:
    """Number of set bits of a thermometer code."""
    return Cat((above[(1 << bit) - 1 :: 1 << bit]).xor() for bit in range(4))
