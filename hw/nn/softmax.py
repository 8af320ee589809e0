"""RTL of `softmax`: three passes over a sample in one memory of logits, then exponentials.

Rounding half to even needs no extra adder: half a step is added in an existing sum; a sum that ends in zeros was a tie,
and its last bit becomes 0.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import memory, wiring

from ...golden.fixed import Q4_12, Q8_16
from ...golden.nn.softmax import SoftmaxSpec
from ..ports import members
from ..primitives.ram import ram
from ..probe import probe


class Softmax(wiring.Component):
    """Softmax of a sample: a logit in, and a probability out a cycle.

    A sample of n logits takes ``3 n + 5 + octaves`` cycles; its last probability follows 5 cycles later. A probability
    that is not taken stalls everything but the entry of logits.
    """

    def __init__(self, spec: SoftmaxSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Passes and state machine; longer than most, as all passes share one memory and its address."""
        m = Module()
        spec = self.spec
        tables = spec.tables
        term_width = tables.exponential_format.width
        mantissa = tables.mantissa
        behind = tables.exponential_format.fraction + spec.octaves
        """Bits after the leading one of the normalised sum."""

        m.submodules.words = words = ram(platform, spec.logit_memory)
        write, read = words.write_port(), words.read_port()
        move = Signal()
        written, position, end = (Signal(len(write.addr), name=name) for name in ("written", "position", "end"))
        reading = Signal()
        at_end = Signal()
        m.d.comb += [read.addr.eq(position), read.en.eq(move), at_end.eq(position == end)]
        with m.If(move & reading):
            m.d.sync += position.eq(Mux(at_end, 0, position + 1))

        # the sum's pipeline: word, distance, table, its output register
        summing = Signal()
        flow, final = Signal(4), Signal(4)
        maximum = Signal(signed(Q8_16.width), reset_less=True)
        base = Signal(signed(Q8_16.width + 1), reset_less=True)
        distance = Signal(Q8_16.width + 1, reset_less=True)
        dropped = Q8_16.fraction - tables.distance.fraction
        term = Signal(term_width, reset_less=True)
        total = Signal(behind + 1, reset_less=True)
        lift = Signal(range(max(spec.octaves + 1, 2)), reset_less=True)
        m.d.sync += base.eq(maximum + (1 << (dropped - 1)))
        address = _even(distance, dropped, tables.distance.width)
        beyond = distance[dropped + tables.distance.width :].any()
        exponentials = self._table(m, "exponentials", move)
        m.d.comb += exponentials.addr.eq(address | beyond.replicate(tables.distance.width))
        with m.If(move):
            m.d.sync += [
                flow.eq(Cat(summing, flow[:-1])),
                final.eq(Cat(summing & at_end, final[:-1])),
                distance.eq(base - read.data.as_signed()),
                term.eq(exponentials.data),
            ]
            with m.If(flow[-1]):
                m.d.sync += total.eq(total + term)
            with m.If(summing & (position == 0)):
                m.d.sync += [total.eq(0), lift.eq(0)]

        # reciprocal of the normalised sum, addressed by the rounded bits after the leading one
        dropped = behind - mantissa
        rounded = Signal(mantissa + 2, reset_less=True)
        low = Signal(reset_less=True)
        reciprocals = self._table(m, "reciprocals", move)
        nearest = Cat(rounded[1] & (rounded[0] | low), rounded[2:-1])
        m.d.comb += reciprocals.addr.eq(nearest | rounded[-1].replicate(mantissa))
        with m.If(move):
            m.d.sync += [rounded.eq(total[dropped - 1 : -1] + 1), low.eq(total[: dropped - 1].any())]

        giving = Signal()
        m.d.comb += self.o.valid.eq(self._quotient(m, move, giving, at_end, (read.data, lift, reciprocals.data)))
        m.d.comb += move.eq(~self.o.valid | self.o.ready)

        step = Signal(range(spec.octaves + 1))
        logit = self.i.payload.logit
        with m.FSM() as fsm:
            with m.State("take"):
                m.d.comb += [self.i.ready.eq(1), write.en.eq(self.i.valid), write.data.eq(logit)]
                with m.If(self.i.valid):
                    m.d.sync += written.eq(written + 1)
                    with m.If((written == 0) | (logit > maximum)):
                        m.d.sync += maximum.eq(logit)
                    with m.If(self.i.payload.last):
                        m.d.sync += [written.eq(0), end.eq(written)]
                        m.next = "sum"
            with m.State("sum"):
                m.d.comb += [summing.eq(1), reading.eq(1)]
                with m.If(move & at_end):
                    m.next = "finish"
            with m.State("finish"), m.If(move & final[-1]):
                m.next = "normalise"
            # a constant number of steps, and one for the rounding
            with m.State("normalise"), m.If(move):
                with m.If(~total[-1]):
                    m.d.sync += [total.eq(total << 1), lift.eq(lift + 1)]
                m.d.sync += step.eq(step + 1)
                with m.If(step == spec.octaves):
                    m.d.sync += step.eq(0)
                    m.next = "give"
            with m.State("give"):
                m.d.comb += [giving.eq(1), reading.eq(1)]
                with m.If(move & at_end):
                    m.next = "take"
        # logits are taken only after the last exponential was written
        with m.If(flow[-1]):
            m.d.comb += [write.en.eq(move), write.data.eq(term)]
            with m.If(move):
                m.d.sync += written.eq(Mux(final[-1], 0, written + 1))
        m.d.comb += write.addr.eq(written)
        probe(self, fsm, move=move)
        return m

    def _quotient(
        self, m: Module, move: Value, giving: Value, at_end: Value, operands: tuple[Value, Value, Value]
    ) -> Value:
        """Product of exponential and the sum's reciprocal, in one DSP; returns `valid` of the probability.

        The exponential is shifted left as the sum was, so that a constant number of bits is dropped.
        """
        word, lift, reciprocal = operands
        tables = self.spec.tables
        width = tables.exponential_format.width + self.spec.octaves
        # no multiplexer: synthesis would infer resets of single bits, which a DSP's register lacks
        exponential = word[: tables.exponential_format.width]
        lifts = [lift == k for k in range(self.spec.octaves + 1)]
        lifted = [
            reduce(or_, (by & exponential[bit - k] for k, by in enumerate(lifts) if 0 <= bit - k < len(exponential)))
            for bit in range(width)
        ]
        fraction = tables.exponential_format.fraction + tables.reciprocal_format.fraction + self.spec.octaves
        dropped = fraction - Q4_12.fraction
        dividend = Signal(signed(width + 1), reset_less=True)
        inverse = Signal(signed(tables.reciprocal_format.width + 1), reset_less=True)
        product, total = (
            Signal(signed(len(dividend) + len(inverse)), name=name, reset_less=True) for name in ("product", "quotient")
        )
        probability = Signal(Q4_12.fraction + 1, reset_less=True)
        flow, final = Signal(5), Signal(5)
        with m.If(move):
            m.d.sync += [
                flow.eq(Cat(giving, flow[:-1])),
                final.eq(Cat(giving & at_end, final[:-1])),
                dividend.eq(Cat(lifted)),
                inverse.eq(reciprocal),
                product.eq(dividend * inverse),
                total.eq(product + (1 << (dropped - 1))),
                probability.eq(_even(total, dropped, len(probability))),
            ]
        m.d.comb += [self.o.payload.probability.eq(probability), self.o.payload.last.eq(final[-1])]
        probe(self, flow=flow, final=final)
        return flow[-1]

    def _table(self, m: Module, name: str, move: Value) -> memory.ReadPort:
        contents, width = self.spec.roms()[name]
        rom = memory.Memory(shape=width, depth=len(contents), init=contents, attrs={"rom_style": "block"})
        m.submodules[name] = rom
        port = rom.read_port()
        m.d.comb += port.en.eq(move)
        return port


def _even(total: Value, dropped: int, width: int) -> Value:
    """Number with half a step added, without its dropped bits, ties to even."""
    return Cat(total[dropped] & total[:dropped].any(), total[dropped + 1 : dropped + width])
