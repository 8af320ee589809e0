"""Word packers: codes or values of a record, one or two a cycle, as beats of the words in which adapters take them."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.fixed import Q8_16
from ....golden.lora.mapping import SCALES, ZERO_CODE, AdapterMapping
from ....golden.lora.memories import written_scale_memory
from ...nn.interfaces import BEAT_BITS, BEATS
from ...primitives.ram import ram


class Taken(NamedTuple):
    """Items that a packer takes in a cycle.

    Attributes
    ----------
    lane : Signal
        Lane of the item, or of the first of two.
    close, final : Value
        It closes its word; it ends the record.
    last : Value
        It is a block's last.
    items : list of Value
        Item for each lane with an even number, with an odd one; the same where one is taken a cycle.
    two : Value or None
        Two are taken: the next lane has one, too. None where one is taken a cycle.
    """

    lane: Signal
    close: Value
    final: Value
    last: Value
    items: list[Value]
    two: Value | None

    def into(self, place: int, bits: int) -> Value:
        """Whether an item goes into a place, of which there are 2^`bits` in what is written at once."""
        lane = self.lane if bits == len(self.lane) else self.lane[:bits]
        return lane == place if self.two is None or not place else (lane == place) | (self.two & (lane == place - 1))


class WordPacker(wiring.Component):
    """Find where a record's words end: after the last lane, with the last block that has room, and with a tensor.

    Where two items come at once and the first one is the last of what is written at once, it is taken alone, and the
    second one in the next cycle.

    Parameters
    ----------
    mapping : AdapterMapping
        Its words, and how many items come at once.
    name : str
        Name of an item in the stream.
    item : Shape
    places : int
        Items that are written at once: a word, or a beat of it.
    more : dict of str to Shape
        What else belongs to the items.

    Attributes
    ----------
    i : In stream of items
        The items of a record, one after the other, with a bit `last` on a block's last one. Where they come two at
        once there is the `second` one, and a bit `single`, only with `last`, if it does not count.
    o : Out stream of beats
        Each word begins on a beat of its own.
    done : Out, 1
        The record's last beat is made, for one cycle; it is on offer from the next cycle on.
    """

    def __init__(
        self, mapping: AdapterMapping, name: str, item: Shape, places: int, more: dict[str, Shape] | None = None
    ) -> None:
        self.mapping, self._name, self._bits = mapping, name, (places - 1).bit_length()
        self._pairs = mapping.packed_at_once == 2
        second = {"second": item, "single": unsigned(1)} if self._pairs else {}
        layout = data.StructLayout({name: item, **second, **(more or {}), "last": unsigned(1)})
        super().__init__({"i": In(stream.Signature(layout)), "o": Out(BEATS), "done": Out(1)})

    def _take(self, m: Module, taken: Signal, ready: Value) -> Taken:
        """Take one item or two, `taken`, while `ready`."""
        mapping, offered = self.mapping, self.i.payload
        lane, parts = Signal(range(mapping.lanes)), Signal(range(SCALES))
        counts = [count for count, _ in mapping.blocks]
        tensor = Signal(range(len(counts)))
        # blocks left of the tensor, and whether this is its last
        left, only = Signal(range(max(counts)), init=counts[0] - 1), Signal(init=counts[0] == 1)
        end, close, final = Signal(), Signal(), Signal()
        last, complete, items, following_lane, two = (
            offered.last,
            lane == mapping.lanes - 1,
            [offered[self._name]],
            lane + 1,
            None,
        )
        if self._pairs:
            last, items, two = self._split(m, taken, ready, lane)
            complete, following_lane = complete | (two & (lane == mapping.lanes - 2)), lane + 1 + two
        else:
            m.d.comb += [taken.eq(self.i.valid & self.i.ready), self.i.ready.eq(ready)]
        m.d.comb += [
            end.eq(last & only),
            close.eq(complete | end | (last & (parts == SCALES - 1))),
            final.eq(end & (tensor == len(mapping.blocks) - 1)),
        ]
        with m.If(taken):
            m.d.sync += [lane.eq(Mux(close, 0, following_lane)), parts.eq(Mux(close, 0, parts + last))]
            with m.If(end):
                m.d.sync += tensor.eq(Mux(final, 0, tensor + 1))
                with m.Switch(tensor):
                    for number in range(len(counts)):
                        following = counts[(number + 1) % len(counts)]
                        with m.Case(number):
                            m.d.sync += [left.eq(following - 1), only.eq(following == 1)]
            with m.Elif(last):
                m.d.sync += [left.eq(left - 1), only.eq(left == 1)]
        return Taken(lane, close, final, last, items, two)

    def _split(self, m: Module, taken: Signal, ready: Value, lane: Signal) -> tuple[Value, list[Value], Value]:
        """Take two items at once, or one after the other; whether a block's last is taken, which ones, and both."""
        offered, rest = self.i.payload, Signal()
        # the first item of two is the last of what is written at once
        apart, two, last = Signal(), Signal(), Signal()
        several = ~(offered.single | rest)
        at_end = lane[: self._bits].all()
        m.d.comb += [
            apart.eq(several & at_end),
            two.eq(several & ~at_end),
            last.eq(offered.last & ~apart),
            taken.eq(self.i.valid & ready),
            self.i.ready.eq(ready & ~apart),
        ]
        with m.If(taken):
            m.d.sync += rest.eq(apart)
        first = Mux(rest, offered.second, offered[self._name])
        return last, [Mux(lane[0], offered.second, first), Mux(lane[0], first, offered.second)], two


class CodePacker(WordPacker):
    """Pack NF4 codes into beats of 32, the first lowest, then all scales of the record. Ports: see `WordPacker`."""

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(mapping, "code", unsigned(4), mapping.lanes, {"scale": unsigned(Q8_16.width - 1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        word, offered, flush = Signal(BEAT_BITS, reset_less=True), Signal(), Signal()
        taken = Signal()
        free = ~offered | self.o.ready
        found = self._take(m, taken, ~flush & free)
        m.submodules.scales = scales = ram(
            platform, written_scale_memory(mapping), data.ArrayLayout(unsigned(32), SCALES)
        )
        store, fetch = scales.write_port(granularity=1), scales.read_port()
        number = Signal(range(mapping.scale_beats * SCALES + 1))
        m.d.comb += [
            store.addr.eq(number[2:]),
            store.en.eq(Mux(taken & found.last, 1 << number[:2], 0)),
            *(part.eq(self.i.payload.scale) for part in store.data),
        ]
        m.d.comb += [self.o.valid.eq(offered), self.o.payload.eq(word)]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            fresh = Signal()
            m.d.comb += fresh.eq(found.lane == 0)
            # a narrow word is padded to the end of its beat
            for at in range(BEAT_BITS // 4):
                with m.If(found.into(at, self._bits) if at < mapping.lanes else 0):
                    m.d.sync += word.word_select(at, 4).eq(found.items[at % len(found.items)])
                with m.Elif(fresh):
                    m.d.sync += word.word_select(at, 4).eq(ZERO_CODE)
            m.d.sync += [offered.eq(found.close), flush.eq(found.final), number.eq(number + found.last)]
        beat, ready = Signal(range(mapping.scale_beats + 1)), Signal()
        m.d.comb += fetch.addr.eq(beat)
        with m.If(flush & free):
            m.d.sync += ready.eq(1)
            with m.If(ready):
                m.d.sync += [word.eq(fetch.data), offered.eq(1), ready.eq(0), beat.eq(beat + 1)]
                with m.If(beat == mapping.scale_beats - 1):
                    m.d.sync += [word.eq(self._filled(fetch.data.as_value())), flush.eq(0), beat.eq(0), number.eq(0)]
                    m.d.comb += self.done.eq(1)
        return m

    def _filled(self, row: Value) -> Value:
        """The last beat of scales: places without one, which nothing has written, are zero."""
        used = 32 * (sum(count for count, _ in self.mapping.blocks) % SCALES or SCALES)
        return Cat(row[:used], Const(0, BEAT_BITS - used))


class ValuePacker(WordPacker):
    """Pack values into beats of four, each in 32 bits; words are filled up with zeros. Ports: see `WordPacker`."""

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(mapping, "value", signed(Q8_16.width), 4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        word, offered, fill, ends = Signal(BEAT_BITS, reset_less=True), Signal(), Signal(), Signal()
        taken, free = Signal(), Signal()
        found = self._take(m, taken, ~fill & free)
        lane, close = found.lane, found.close
        left = Signal(range(mapping.lanes // 4))
        m.d.comb += [free.eq(~offered | self.o.ready), self.o.valid.eq(offered), self.o.payload.eq(word)]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            for at in range(4):
                with m.If(found.into(at, self._bits)):
                    m.d.sync += word.word_select(at, 32).eq(found.items[at % len(found.items)])
                with m.Elif(lane[:2] == 0):
                    m.d.sync += word.word_select(at, 32).eq(0)
            full = lane[:2] == 3 if found.two is None else (lane[:2] == 3) | (found.two & (lane[:2] == 2))
            short = close & (lane[2:] != mapping.lanes // 4 - 1)
            m.d.sync += [offered.eq(full | close), left.eq(mapping.lanes // 4 - 2 - lane[2:]), fill.eq(short)]
            m.d.sync += ends.eq(found.final)
            with m.If(found.final & ~short):
                m.d.comb += self.done.eq(1)
        with m.Elif(fill & free):
            m.d.sync += [word.eq(0), offered.eq(1), left.eq(left - 1)]
            with m.If(left == 0):
                m.d.sync += fill.eq(0)
                m.d.comb += self.done.eq(ends)
        return m
