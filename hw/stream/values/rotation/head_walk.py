"""RTL of chunk addresses for a token's queries and keys, head by head."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .....golden.stream.values.rotary import RotarySpec
from ....ports import shape
from ....primitives.registers import register
from ...memory.chunk_line import ChunkLine


class HeadWalk(wiring.Component):
    """Step through the chunks of a token's row, a chunk a cycle: all query heads, then all key heads.

    Attributes
    ----------
    heads, key_heads : In, as wide as those of an instruction
        Number of query heads and of key heads in a row. Stable from two cycles before a row until its end, like the
        next four inputs.
    last : In, range of the chunks of the widest head
        Number of chunks in a head, minus 1.
    queries, keys, stride : In, as wide as an address
        Base addresses of queries and of keys, and the difference between the addresses of two groups.
    start : In(1)
        Begin a row; only while `active` is low.
    row : In, as wide as a row's number
        Number of the row, with `start`.
    active : Out(1)
        `address` is valid.
    address, part : Out
        Address of the chunk.
    advance : In(1)
        Go to the next chunk.
    final : Out(1)
        The chunk is the last of the row.
    """

    def __init__(self, spec: RotarySpec) -> None:
        self.spec = spec
        address, head = shape(spec.layout.address), shape(spec.streams()["operation"].fields[0].format)
        super().__init__(
            {
                "heads": In(head),
                "key_heads": In(head),
                "last": In(range(spec.chunks)),
                "queries": In(address),
                "keys": In(address),
                "stride": In(address),
                "start": In(1),
                "row": In(shape(spec.row)),
                "active": Out(1),
                "address": Out(address),
                "part": Out(shape(spec.layout.part)),
                "advance": In(1),
                "final": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.line = line = ChunkLine(self.spec.layout)
        row, keys = Signal.like(self.row, reset_less=True), Signal(reset_less=True)
        head, chunk = Signal.like(self.heads, reset_less=True), Signal.like(self.last, reset_less=True)
        last_heads = [
            register(m, f"last_head{number}", count - 1) for number, count in enumerate((self.heads, self.key_heads))
        ]
        ends_head, ends, turn = Signal(), Signal(), Signal()
        m.d.comb += [
            ends_head.eq(chunk == self.last),
            ends.eq(ends_head & (head == Mux(keys, last_heads[1], last_heads[0]))),
            turn.eq(self.advance & ends & ~keys),
            self.final.eq(ends & keys),
            line.stride.eq(self.stride),
            line.start.eq(self.start | turn),
            line.base.eq(Mux(self.start, self.queries, self.keys)),
            line.advance.eq(self.advance),
            self.address.eq(line.line + row),
            self.part.eq(line.part),
        ]
        with m.If(self.advance):
            m.d.sync += [
                chunk.eq(Mux(ends_head, 0, chunk + 1)),
                head.eq(Mux(ends, 0, head + ends_head)),
                keys.eq(keys | ends),
            ]
            with m.If(self.final):
                m.d.sync += self.active.eq(0)
        with m.If(self.start):
            m.d.sync += [self.active.eq(1), row.eq(self.row), keys.eq(0), head.eq(0), chunk.eq(0)]
        return m
