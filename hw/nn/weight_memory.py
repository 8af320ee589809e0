"""Parameters in words as wide as the multipliers, written by the beat."""

from amaranth.hdl import Cat, Module, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .mac import PARAMETER

BEAT = 128
"""Bits that are written at once, or a few times as many."""


class WeightMemory(wiring.Component):
    """A memory for each beat of a word, so that each can be written by itself; read registered.

    Parameters
    ----------
    depth : int
        Words.
    lanes, columns : int
        Parameters of a word.
    together : int
        Neighbouring beats, of one word, that can be written at once.

    Attributes
    ----------
    write, place, beats
        An enable for each of the beats, and the number of any of them.
    address, word
        The word, one cycle later.
    """

    def __init__(self, depth: int, lanes: int, columns: int, together: int = 1) -> None:
        self.depth, self.together = depth, together
        word = data.ArrayLayout(PARAMETER, lanes * columns)
        self.slices = word.size // BEAT
        # a block RAM is 512 deep: of a wide core's short memory too much would lie idle
        self.style = "distributed" if columns > 4 and depth <= 128 else "block"
        super().__init__(
            {
                "write": In(together),
                "place": In(range(depth * self.slices)),
                "beats": In(BEAT * together),
                "address": In(range(depth)),
                "word": Out(word),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        low, bits = exact_log2(self.together), exact_log2(self.slices)
        parts = []
        for number in range(self.slices):
            part = memory.Memory(shape=unsigned(BEAT), depth=self.depth, init=[], attrs={"ram_style": self.style})
            m.submodules[f"beat{number}"] = part
            into, port = part.write_port(), part.read_port()
            group, own = divmod(number, self.together)
            m.d.comb += [
                into.en.eq(self.write[own] & (self.place[low:bits] == group)),
                into.addr.eq(self.place[bits:]),
                into.data.eq(self.beats.word_select(own, BEAT)),
                port.addr.eq(self.address),
            ]
            parts.append(port.data)
        m.d.comb += self.word.eq(Cat(parts))
        return m
