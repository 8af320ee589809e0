"""RTL of head rotation: an input ring of chunks, multipliers for word pairs, and an output ring."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from .....golden.fixed import Q8_16, Format
from .....golden.stream.attention import HALVES, Q6_12, ROTATION
from .....golden.stream.values.rotary import TURN_LANES, RotarySpec
from ....ports import shape
from ....primitives.pipeline import Pipeline
from ....primitives.ram import ram
from ....primitives.registers import data_register, register
from ....primitives.rounding import RoundSaturate, saturate_to
from ....probe import probe

_WORD, _TURNS = TURN_LANES * Q8_16.width, TURN_LANES * ROTATION.width
_SUM = Q8_16.width + ROTATION.width + 1
_ROUNDED = Format(_SUM + 1 - ROTATION.fraction, 0)


class HeadTurn(wiring.Component):
    """Rotate heads, `TURN_LANES` values a cycle; each row has its query heads, then its key heads.

    A word of a head's first half enters, then the matching word of the second half. In both cycles each lane multiplies
    by cosine and sine; the four products make two sums.

    Attributes
    ----------
    heads, key_heads : In, as wide as those of an instruction
        Number of query heads and of key heads in a row. Stable while rows are in progress, like `last`.
    last : In, range of the chunks of the widest head
        Number of chunks in a head, minus 1.
    pairs : In, range of the words of half of the widest head
        Number of words in half a head, minus 1.
    bank : In(1)
        Table row that is used; the other row may be written.
    load : In(1)
        Write a word of the table row that is not used.
    load_sine, load_at, load_value : In
        High for sines, low for cosines; index of the word; `TURN_LANES` numbers in `ROTATION`.
    begin : In(1)
        Clear `clipped`, at the beginning of an operation.
    i, o : In, Out, streams of columns of 24 bits
        Chunks of heads, and of results; key results have 18 bits.
    clipped : Out(32)
        Number of clipped values.
    """

    def __init__(self, spec: RotarySpec) -> None:
        self.spec = spec
        chunk = stream.Signature(data.ArrayLayout(shape(Q8_16), spec.columns))
        head = shape(spec.streams()["operation"].fields[0].format)
        super().__init__(
            {
                "heads": In(head),
                "key_heads": In(head),
                "last": In(range(spec.chunks)),
                "pairs": In(range(spec.width // HALVES)),
                "bank": In(1),
                "load": In(1),
                "load_sine": In(1),
                "load_at": In(range(spec.width // HALVES)),
                "load_value": In(_TURNS),
                "begin": In(1),
                "i": In(chunk),
                "o": Out(chunk),
                "clipped": Out(32),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec = self.spec
        pipeline = Pipeline(
            m,
            {
                "address": 0,
                "place": 1,
                "word": 1,
                "product": 1,
                "sum": 1,
                "result": 1,
                "rounded": RoundSaturate.LATENCY,
                "o": 1,
            },
        )
        assert pipeline.latency("address", "o") == spec.latency
        index, second = Signal.like(self.pairs), Signal()
        step, begins, ends, leaves = Signal(), Signal(), Signal(), Signal()
        # numbers of chunks: stored and not begun; free in the input ring, in the output ring; finished
        stored, before, behind, made = (
            Signal(range(spec.ring + 1), name=name, init=init)
            for name, init in (("stored", 0), ("before", spec.ring), ("behind", spec.ring), ("made", 0))
        )
        count = register(m, "count", self.last + 1)
        m.d.comb += [
            begins.eq(step & (index == 0) & ~second),
            ends.eq(step & second & (index == self.pairs)),
            step.eq((index.any() | second) | (stored > self.last) & (behind > self.last)),
            self.i.ready.eq(before.any()),
            leaves.eq(made.any() & (~self.o.valid | self.o.ready)),
        ]
        with m.If(step):
            m.d.sync += [second.eq(~second), index.eq(Mux(ends, 0, index + second))]
        flags = Signal(spec.latency)
        finished = pipeline.place_flag("address", ends, flags).at("o")
        taken = self.i.valid & self.i.ready
        m.d.sync += [
            self.o.valid.eq(leaves | (self.o.valid & ~self.o.ready)),
            stored.eq(stored + taken - Mux(begins, count, 0)),
            before.eq(before - taken + Mux(ends, count, 0)),
            behind.eq(behind + leaves - Mux(begins, count, 0)),
            made.eq(made - leaves + Mux(finished, count, 0)),
        ]
        # index of the word in the head; the second half follows the first
        word_index = Signal(range(spec.width // TURN_LANES))
        m.d.comb += word_index.eq(index + Mux(second, self.pairs + 1, 0))
        base = Signal(range(spec.ring))
        with m.If(ends):
            m.d.sync += base.eq(base + count)
        bank_bits = exact_log2(spec.columns // TURN_LANES)
        row = Signal(range(spec.ring))
        m.d.comb += row.eq(base + word_index[bank_bits:])
        self._row = pipeline.place("address", row, "row", reset_less=True)
        self._bank = pipeline.place("address", word_index[:bank_bits], "bank", reset_less=True)
        pair = pipeline.place("address", index, "pair", reset_less=True).at("place")
        word, turns = self._before(m, platform, taken), self._table(m, platform, pair)
        results = self._turned(m, pipeline, word, turns, second, self._keys(m, ends))
        writes = pipeline.place_flag("address", step, Signal(spec.latency, name="steps")).at("o")
        self._behind(m, platform, pipeline, results, writes, leaves)
        probe(self, stored=stored, before=before, second=second, flags=flags, made=made, behind=behind)
        return m

    def _before(self, m: Module, platform: object, taken: Value) -> Value:
        """Write chunks into the input ring; returns the word that is read."""
        spec, words = self.spec, self.spec.columns // TURN_LANES
        into, words_read = Signal(range(spec.ring)), list[Value]()
        m.d.sync += into.eq(into + taken)
        chunk = Value.cast(self.i.payload)
        for number in range(words):
            m.submodules[f"before{number}"] = memory = ram(platform, spec.memories[0])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(into),
                write.data.eq(chunk[number * _WORD : (number + 1) * _WORD]),
                write.en.eq(taken),
                read.addr.eq(self._row.at("place")),
            ]
            words_read.append(read.data)
        return Cat(words_read).word_select(self._bank.at("place"), _WORD)

    def _table(self, m: Module, platform: object, pair: Value) -> list[Value]:
        """Write a table row while the other is read; returns cosines and sines for a word."""
        read_data = list[Value]()
        for number, name in enumerate(("cosines", "sines")):
            m.submodules[name] = memory = ram(platform, self.spec.memories[1])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(Cat(self.load_at, ~self.bank)),
                write.data.eq(self.load_value),
                write.en.eq(self.load & (self.load_sine == number)),
                read.addr.eq(Cat(pair, self.bank)),
            ]
            read_data.append(read.data)
        return read_data

    def _turned(
        self, m: Module, pipeline: Pipeline, word: Value, turns: list[Value], second: Signal, keys: Signal
    ) -> list[tuple[Value, Value]]:
        """Result and clip flag of each lane, at "o"."""
        later = pipeline.place("address", second, "later", reset_less=True)
        of_keys = pipeline.place("address", keys, "of_keys", reset_less=True).at("rounded")
        width, results, now = Q8_16.width, list[tuple[Value, Value]](), later.at("place")
        for lane in range(TURN_LANES):
            value = register(m, f"value{lane}", word.word_select(lane, width).as_signed())
            cosine, sine = (factors.word_select(lane, ROTATION.width).as_signed() for factors in turns)
            products = [
                register(m, f"{name}_product{lane}", value * register(m, f"{name}_factor{lane}", factor))
                for name, factor in (("first", Mux(now, sine, cosine)), ("second", Mux(now, cosine, sine)))
            ]
            first, other = (
                Signal(signed(_SUM), name=f"{name}_sum{lane}", reset_less=True) for name in ("first", "second")
            )
            m.d.sync += [
                first.eq(Mux(later.at("product"), first - products[0], products[0])),
                other.eq(Mux(later.at("product"), other, 0) + products[1]),
            ]
            # both sums complete in the same cycle; the second is rounded a cycle later
            held = register(m, f"held{lane}", other)
            m.submodules[f"rounding{lane}"] = rounding = RoundSaturate(_SUM, ROTATION.fraction, _ROUNDED)
            m.d.comb += rounding.i.eq(Mux(later.at("result"), held, first))
            ended = saturate_to(rounding.o, {Q8_16.width: ~of_keys, Q6_12.width: of_keys})
            names = f"result{lane}", f"beyond{lane}"
            result, beyond = (register(m, name, value) for name, value in zip(names, ended, strict=True))
            results.append((result, beyond))
        return results

    def _behind(
        self,
        m: Module,
        platform: object,
        pipeline: Pipeline,
        results: list[tuple[Value, Value]],
        writes: Value,
        leaves: Value,
    ) -> None:
        """Write results into the output ring, output its chunks, and count clipped values."""
        spec = self.spec
        row, bank = self._row.at("o"), self._bank.at("o")
        out, chunk = Signal(range(spec.ring)), list[Value]()
        m.d.sync += out.eq(out + leaves)
        for number in range(spec.columns // TURN_LANES):
            m.submodules[f"behind{number}"] = memory = ram(platform, spec.memories[0])
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(row),
                write.data.eq(Cat(value for value, _ in results)),
                write.en.eq(writes & (bank == number)),
                read.addr.eq(out),
            ]
            chunk.append(read.data)
        beyond = [Mux(writes, flag, 0) for _, flag in results]
        some = register(m, "some", sum(beyond[1:], beyond[0]))
        payload = data_register(m, self.o.payload, "o_payload")
        with m.If(leaves):
            m.d.sync += Value.cast(payload).eq(Cat(chunk))
        m.d.sync += self.clipped.eq(self.clipped + some)
        with m.If(self.begin):
            m.d.sync += self.clipped.eq(0)

    def _keys(self, m: Module, ends: Value) -> Signal:
        head, keys, final = Signal.like(self.heads), Signal(), Signal()
        last_heads = [
            register(m, f"last_head{number}", count - 1) for number, count in enumerate((self.heads, self.key_heads))
        ]
        m.d.comb += final.eq(head == Mux(keys, last_heads[1], last_heads[0]))
        with m.If(ends):
            m.d.sync += [head.eq(Mux(final, 0, head + 1)), keys.eq(keys ^ final)]
        return keys
