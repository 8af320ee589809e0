"""Row and rotation of a word, by serial division."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.weights.word_offsets import WORD
from ...primitives.mux_tree import mux_tree
from ...probe import probe


class WordPlace(wiring.Component):
    """Divide a word's number by the number of rows, a bit a cycle: `CYCLES` cycles, without a multiplier.

    Parameters
    ----------
    n, turn : int
        Number of numbers in a row, and the rotation that each pass through all rows adds.

    Attributes
    ----------
    find : In, 1
        `word` is valid, and stable until `restart`.
    word : In, 32 bits
        Number of the word.
    found : Out, 1
        `row` and `turned` are valid.
    row : Out, range(times)
        ``word mod times``; 0 after a `restart`.
    turned : Out, range(n)
        ``turn (word div times) mod n``; 0 after a `restart`.
    restart : In, 1
        Start over in the next cycle.
    """

    CYCLES = WORD.width + 1

    def __init__(self, times: int, n: int, turn: int) -> None:
        self.times, self.n, self.turn = times, n, turn
        super().__init__(
            {
                "find": In(1),
                "word": In(WORD.width),
                "found": Out(1),
                "row": Out(range(times)),
                "turned": Out(range(n)),
                "restart": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = Signal(range(self.CYCLES + 1))
        bits_left, quotient = Signal(), Signal()
        m.d.comb += [self.found.eq(step == self.CYCLES), bits_left.eq(step < WORD.width)]
        bit = mux_tree(step[:-1], list(self.word)[::-1])
        wide = Signal(range(2 * self.times))
        m.d.comb += wide.eq(Cat(bit, self.row))
        with m.If(self.restart):
            m.d.sync += [step.eq(0), self.row.eq(0), quotient.eq(0)]
        with m.Elif(self.find & ~self.found):
            m.d.sync += step.eq(step + 1)
            with m.If(bits_left):
                m.d.sync += quotient.eq(wide >= self.times)
                m.d.sync += self.row.eq(Mux(wide >= self.times, wide - self.times, wide))
        # a cycle after the row's step, as the quotient bit is a register
        twice = [(2 * rotation + more) % self.n for rotation in range(self.n) for more in (0, self.turn)]
        with m.If(self.restart):
            m.d.sync += self.turned.eq(0)
        with m.Elif(self.find & ~self.found):
            m.d.sync += self.turned.eq(mux_tree(Cat(quotient, self.turned), twice))
        probe(self, step=step)
        return m
