"""RTL of `loss_difference`: softmax of plus and minus logits; logit differences are multiplied serially by weights."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from ...golden.fixed import Q4_12
from ...golden.zo.loss_difference import DIFFERENCE, LossDifferenceSpec
from ..nn.softmax import Softmax
from ..ports import members
from ..primitives.ram import ram
from ..primitives.registers import data_register

_PROBABILITY = Q4_12.fraction + 1
"""Bits of a probability from 0 to 1."""


class _Sides(NamedTuple):
    """Plus and minus words, read at a common address, and write progress of the minus words."""

    plus: Value
    minus: Value
    begins: Value
    """High when the first minus word is written."""
    ends: Value
    """High when the last minus word is written."""


class LossDifference(wiring.Component):
    """Compute a sample's loss difference and its label's plus and minus probabilities; accepts a logit a cycle.

    A sample is a pair of n plus logits, then n minus logits. The memories hold two pairs: while softmax works on one
    pair, the other pair's products are computed, 8 cycles each. A result follows the pair's last logit by
    ``spec.latency_of(n)`` cycles. In a steady stream a pair takes ``spec.period(n)`` cycles.
    """

    def __init__(self, spec: LossDifferenceSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.softmax = softmax = Softmax(self.spec.softmax)
        sample, probabilities = self.i.payload, softmax.o

        index, bank, next_pair = Signal(max((self.spec.classes - 1).bit_length(), 1)), Signal(), Signal()
        read = Cat(index, bank)
        taken = self.i.valid & self.i.ready
        logits = self._sides(m, platform, "logit", read, taken, sample.last, (sample.logit, sample.logit))
        probability, final = probabilities.payload.probability[:_PROBABILITY], probabilities.payload.last
        # the last minus word has an end flag as its top bit
        words = probability, Cat(probability, final)
        sides = self._sides(m, platform, "probability", read, probabilities.valid, final, words)

        # number of pairs with outstanding products: of them, with complete logits; with a first minus probability
        complete, begun, held = Signal(2), Signal(2), Signal()
        m.d.sync += [complete.eq(complete + logits.ends - next_pair), begun.eq(begun + sides.begins - next_pair)]
        m.d.comb += [
            # both banks are full while two complete pairs are outstanding: further logits wait
            held.eq(complete[1]),
            softmax.i.valid.eq(self.i.valid & ~held),
            softmax.i.payload.eq(sample),
            self.i.ready.eq(softmax.i.ready & ~held),
            probabilities.ready.eq(1),
        ]

        # timing of the memory: a word can be read two cycles after its write
        ready, load, of_label = Signal(), Signal(), Signal()
        m.d.sync += ready.eq(begun.any())
        plus, minus, last = sides.plus, sides.minus[:-1], sides.minus[-1]
        total = Signal(_PROBABILITY + 1)
        m.d.comb += total.eq(plus + minus)
        # for the label, subtract 2, which changes the two highest bits only
        weight = Cat(total[:-1], total[-1] ^ of_label, of_label & ~total[-1])
        free = self._products(m, load, last, weight, logits.plus - logits.minus, index == 0)
        m.d.comb += [
            of_label.eq(index == self.label.payload.label),
            load.eq(free & ready & self.label.valid),
            next_pair.eq(load & last),
            self.label.ready.eq(next_pair),
        ]
        result = {name: data_register(m, self.o.payload[name], f"{name}_given") for name in ("plus", "minus")}
        with m.If(load):
            m.d.sync += index.eq(Mux(last, 0, index + 1))
            m.d.sync += bank.eq(bank ^ last)
            with m.If(of_label | (index == 0)):
                m.d.sync += [result["plus"].eq(Mux(of_label, plus, 0)), result["minus"].eq(Mux(of_label, minus, 0))]
        return m

    def _products(self, m: Module, load: Value, last: Value, weight: Value, difference: Value, first: Value) -> Value:
        """Accumulate products, a base-4 Booth digit (-2 to 2) of the weight a cycle; returns a flag: can load."""
        digits = self.spec.product
        width = DIFFERENCE.width
        multiplier, multiplicand = Signal(2 * digits + 1, reset_less=True), Signal(width, reset_less=True)
        step, busy, final, full = Signal(range(digits)), Signal(), Signal(), Signal()
        below, low, high = multiplier[:3]
        is_one, is_two = low ^ below, (high ^ low) & ~(low ^ below)
        chosen = (multiplicand & is_one.replicate(width)) | ((multiplicand << 1)[:width] & is_two.replicate(width))
        total = Signal(signed(width), reset_less=True)
        last_step = step == digits - 1
        m.d.comb += [self.o.valid.eq(full), self.o.payload.difference.eq(total)]
        with m.If(self.o.ready):
            m.d.sync += full.eq(0)
        with m.If(busy):
            # a negative digit: invert, and add 1 through the carry
            m.d.sync += [
                total.eq(total + (chosen ^ high.replicate(width)) + high),
                multiplier.eq(multiplier >> 2),
                multiplicand.eq(multiplicand << 2),
                step.eq(step + 1),
            ]
            with m.If(last_step):
                m.d.sync += [busy.eq(0), full.eq(final)]
        with m.If(load):
            m.d.sync += [
                busy.eq(1),
                final.eq(last),
                multiplier.eq(Cat(0, weight, weight[-1])),
                multiplicand.eq(difference),
            ]
            with m.If(first):
                m.d.sync += total.eq(0)
        return Mux(busy, last_step & ~final, ~full | self.o.ready)

    def _sides(
        self,
        m: Module,
        platform: object,
        name: str,
        read: Value,
        enable: Value,
        last: Value,
        words: tuple[Value, Value],
    ) -> _Sides:
        """Write plus words, then minus words, each into its own memory; pairs alternate between two banks."""
        number = Signal(len(read) - 1, name=f"{name}_number")
        bank, side = (Signal(name=f"{name}_{what}") for what in ("bank", "side"))
        with m.If(enable):
            m.d.sync += number.eq(Mux(last, 0, number + 1))
            with m.If(last):
                m.d.sync += [side.eq(~side), bank.eq(bank ^ side)]
        words_read = []
        for number_of_side, (which, word) in enumerate(zip(("plus", "minus"), words, strict=True)):
            store = ram(platform, self.spec.side_memory(f"{name} of the {which} side", len(word)), word.shape())
            m.submodules[f"{name}s_{which}"] = store
            port, into = store.read_port(), store.write_port()
            m.d.comb += [
                port.addr.eq(read),
                into.addr.eq(Cat(number, bank)),
                into.data.eq(word),
                into.en.eq(enable & (side == number_of_side)),
            ]
            words_read.append(port.data)
        now = enable & side
        return _Sides(words_read[0], words_read[1], now & (number == 0), now & last)
