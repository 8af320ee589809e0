"""Word packers: beats of the adapters' input words, from codes or values, one or two a cycle."""

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
    """Items taken in a cycle.

    Attributes
    ----------
    lane : Signal
        Lane of the first item.
    close, final : Value
        End of the word; end of the record.
    last : Value
        End of a block.
    items : list of Value
        Items for even and for odd lanes; a single entry in a packer of one item a cycle.
    two : Value or None
        Two items are taken, the second for the next lane; None in a packer of one item a cycle.
    """

    lane: Signal
    close: Value
    final: Value
    last: Value
    items: list[Value]
    two: Value | None

    def into(self, place: int, bits: int) -> Value:
        """Whether an item goes to position `place` of the 2**`bits` positions of a write."""
        lane = self.lane if bits == len(self.lane) else self.lane[:bits]
        return lane == place if self.two is None or not place else (lane == place) | (self.two & (lane == place - 1))


class WordPacker(wiring.Component):
    """Ends words after the last lane, after `SCALES` blocks, and at the end of a tensor.

    If a pair of items crosses the end of a write, its items are taken in two cycles.

    Parameters
    ----------
    mapping : AdapterMapping
    name : str
        Name of an item in the stream.
    item : Shape
    places : int
        Items of a write: a word, or a beat of a word.
    more : dict of str to Shape
        Further members of the stream.

    Attributes
    ----------
    i : In stream of items
        Items of a record; `last` on a block's last item. With `packed_at_once` = 2 also `second`, the second item, and
        `single` with `last`, if `second` is invalid.
    o : Out stream of beats
        Each word begins a beat.
    done : Out(1)
        The record's last beat is on offer from the next cycle on; one cycle.
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
        """Take one item or two while `ready`, and drive `taken`."""
        mapping, offered = self.mapping, self.i.payload
        lane, parts = Signal(range(mapping.lanes)), Signal(range(SCALES))
        counts = [count for count, _ in mapping.blocks]
        tensor = Signal(range(len(counts)))
        # remaining blocks of the tensor; the block is the last
        remaining, only = Signal(range(max(counts)), init=counts[0] - 1), Signal(init=counts[0] == 1)
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
                            m.d.sync += [remaining.eq(following - 1), only.eq(following == 1)]
            with m.Elif(last):
                m.d.sync += [remaining.eq(remaining - 1), only.eq(remaining == 1)]
        return Taken(lane, close, final, last, items, two)

    def _split(self, m: Module, taken: Signal, ready: Value, lane: Signal) -> tuple[Value, list[Value], Value]:
        """Take two items in a cycle or in two; return flags of a block's end and of a pair, and the items by lane."""
        offered, rest = self.i.payload, Signal()
        # the pair crosses the end of a write
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
    """Packs NF4 codes into beats of 32, the first in the lowest bits, then all scales of the record."""

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(mapping, "code", unsigned(4), mapping.lanes, {"scale": unsigned(Q8_16.width - 1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        word, offered, flush = Signal(BEAT_BITS, reset_less=True), Signal(), Signal()
        taken = Signal()
        free = ~offered | self.o.ready
        item = self._take(m, taken, ~flush & free)
        m.submodules.scales = scales = ram(
            platform, written_scale_memory(mapping), data.ArrayLayout(unsigned(32), SCALES)
        )
        store, fetch = scales.write_port(granularity=1), scales.read_port()
        number = Signal(range(mapping.scale_beats * SCALES + 1))
        m.d.comb += [
            store.addr.eq(number[2:]),
            store.en.eq(Mux(taken & item.last, 1 << number[:2], 0)),
            *(part.eq(self.i.payload.scale) for part in store.data),
        ]
        m.d.comb += [self.o.valid.eq(offered), self.o.payload.eq(word)]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            fresh = Signal()
            m.d.comb += fresh.eq(item.lane == 0)
            # a word narrower than a beat is padded
            for lane_number in range(BEAT_BITS // 4):
                with m.If(item.into(lane_number, self._bits) if lane_number < mapping.lanes else 0):
                    m.d.sync += word.word_select(lane_number, 4).eq(item.items[lane_number % len(item.items)])
                with m.Elif(fresh):
                    m.d.sync += word.word_select(lane_number, 4).eq(ZERO_CODE)
            m.d.sync += [offered.eq(item.close), flush.eq(item.final), number.eq(number + item.last)]
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
        """Last beat of scales, with zeros at unused positions."""
        used = 32 * (sum(count for count, _ in self.mapping.blocks) % SCALES or SCALES)
        return Cat(row[:used], Const(0, BEAT_BITS - used))


class ValuePacker(WordPacker):
    """Packs values into beats of four, 32 bits each; words are padded with zeros."""

    def __init__(self, mapping: AdapterMapping) -> None:
        super().__init__(mapping, "value", signed(Q8_16.width), 4)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        word, offered, fill, ends = Signal(BEAT_BITS, reset_less=True), Signal(), Signal(), Signal()
        taken, free = Signal(), Signal()
        item = self._take(m, taken, ~fill & free)
        lane, close = item.lane, item.close
        remaining = Signal(range(mapping.lanes // 4))
        m.d.comb += [free.eq(~offered | self.o.ready), self.o.valid.eq(offered), self.o.payload.eq(word)]
        with m.If(self.o.ready):
            m.d.sync += offered.eq(0)
        with m.If(taken):
            for lane_number in range(4):
                with m.If(item.into(lane_number, self._bits)):
                    m.d.sync += word.word_select(lane_number, 32).eq(item.items[lane_number % len(item.items)])
                with m.Elif(lane[:2] == 0):
                    m.d.sync += word.word_select(lane_number, 32).eq(0)
            full = lane[:2] == 3 if item.two is None else (lane[:2] == 3) | (item.two & (lane[:2] == 2))
            short = close & (lane[2:] != mapping.lanes // 4 - 1)
            m.d.sync += [offered.eq(full | close), remaining.eq(mapping.lanes // 4 - 2 - lane[2:]), fill.eq(short)]
            m.d.sync += ends.eq(item.final)
            with m.If(item.final & ~short):
                m.d.comb += self.done.eq(1)
        with m.Elif(fill & free):
            m.d.sync += [word.eq(0), offered.eq(1), remaining.eq(remaining - 1)]
            with m.If(remaining == 0):
                m.d.sync += fill.eq(0)
                m.d.comb += self.done.eq(ends)
        return m
