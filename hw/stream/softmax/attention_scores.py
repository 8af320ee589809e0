"""Exact sums of scores, narrowed, scaled and narrowed to exponents, with the largest one of each query."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.attention import Q6_12, SUM
from ....golden.stream.forward import SHIFT
from ....golden.stream.norms import Q11_16
from ....golden.stream.softmax.attention_softmax import FACTOR, FRACTIONS, AttentionSoftmaxSpec
from ...ports import shape
from ...primitives.pipeline import Pipeline, Placed
from ...primitives.ram import ram
from ...primitives.registers import data_register
from ...primitives.shifter import RoundingShifter

_LACKING = 2 * SHIFT.maximum - Q6_12.fraction
"""Bits that sums of the most shifted formats lack of 16 fraction bits."""


def place_layout(spec: AttentionSoftmaxSpec) -> data.StructLayout:
    """Layout of a word's place: bank, query, and which word of its keys."""
    parts = exact_log2(spec.keys // spec.exponentials)
    return data.StructLayout({"bank": 1, "query": exact_log2(spec.queries), "part": parts})


class AttentionScores(wiring.Component):
    """Make exponents of a word of scores a cycle, without handshake, and keep each query's largest.

    Attributes
    ----------
    valid : In(1)
        A word of scores is there, with all inputs below.
    score : In, array of sums
    shift : In
        Sum of both formats' shifts.
    factor, fraction : In
        What scores are multiplied by.
    given : In
        Place of the word.
    edge : In
        Last key that its query sees.
    fresh : In(1)
        It is the first word of its query.
    begins, ends : In(1)
        It is the first or last word of its block.
    store : Out(1)
        Exponents are there.
    place : Out
        Their place.
    exponent : Out, array of Q8.16
    stored : Out(2)
        A bit a bank: for a cycle, all of a block are stored, and `clipped` and `largest` are those of the block.
    clipped : Out, array of a number a bank
        Values of the block that were clipped.
    largest_at : In
        Query, and above it the bank.
    largest : Out
        Its largest exponent, in the same cycle.
    """

    def __init__(self, spec: AttentionSoftmaxSpec) -> None:
        self.spec = spec
        place, counts = place_layout(spec), spec.streams()["inverse"].fields[-1]
        super().__init__(
            {
                "valid": In(1),
                "score": In(data.ArrayLayout(shape(SUM), spec.exponentials)),
                "shift": In(SHIFT.width + 1),
                "factor": In(FACTOR.width),
                "fraction": In(range(FRACTIONS.stop)),
                "given": In(place),
                "edge": In(exact_log2(spec.keys)),
                "fresh": In(1),
                "begins": In(1),
                "ends": In(1),
                "store": Out(1),
                "place": Out(place),
                "exponent": Out(data.ArrayLayout(shape(Q8_16), spec.exponentials)),
                "stored": Out(2),
                "clipped": Out(data.ArrayLayout(shape(counts.format), 2)),
                "largest_at": In(1 + exact_log2(spec.queries)),
                "largest": Out(shape(Q8_16)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        levels = exact_log2(self.spec.exponentials)
        pipeline = Pipeline(
            m,
            {
                "input": 0,
                "edge": 1,
                "left": 1,
                "score": RoundingShifter.latency_of(Q6_12.fraction + _LACKING) - 2,
                "product": 1,
                "exact": 1,
                "exponent": RoundingShifter.latency_of(FRACTIONS[-1] - FRACTIONS[0]),
                "masked": 1,
                "largest": levels,
                "kept": 1,
            },
        )
        assert pipeline.latency("input", "kept") == self.spec.score_latency
        valid = pipeline.place("input", self.valid, "valid")
        place = pipeline.place("input", self.given, "place", reset_less=True)
        seen = self._seen(m, pipeline, place)
        exponents, clips = self._exponents(m, pipeline)
        m.d.comb += [self.store.eq(valid.at("exponent")), Value.cast(self.place).eq(Value.cast(place.at("exponent")))]
        m.d.comb += [port.eq(one) for port, one in zip(self.exponent, exponents, strict=True)]
        masked = []
        for lane, exponent in enumerate(exponents):
            masked.append(Signal(shape(Q8_16), name=f"masked{lane}", reset_less=True))
            m.d.sync += masked[-1].eq(Mux(seen.at("exponent")[lane], exponent, Q8_16.minimum))
        self._largest(m, pipeline, platform, place, _maximum(m, masked))
        self._count(m, pipeline, Mux(valid.at("exponent"), seen.at("exponent"), 0), clips)
        ends = self.ends & self.valid
        ends = Cat(ends & ~self.given.bank, ends & self.given.bank)
        m.d.comb += self.stored.eq(pipeline.place("input", ends, "ends").at("kept"))
        return m

    def _seen(self, m: Module, pipeline: Pipeline, place: Placed) -> Placed:
        """Scores of a word whose keys the query sees: a bit each, at "left"."""
        edge = pipeline.place("input", self.edge, "edge", reset_less=True).at("edge")
        left = Signal(signed(len(edge) + 1), reset_less=True)
        lanes = range(self.spec.exponentials)
        m.d.sync += left.eq(edge - Cat(Const(0, exact_log2(len(lanes))), place.at("edge").part))
        return pipeline.place("left", Cat(left >= lane for lane in lanes), "seen", reset_less=True)

    def _exponents(self, m: Module, pipeline: Pipeline) -> tuple[list[Value], Placed]:
        """Exponents of the lanes, at "exponent", and whether scores, then exponents were clipped, at "score"."""
        lacking = pipeline.place("input", self.shift, "shift", reset_less=True).at("input")
        factor = pipeline.place("input", self.factor, "factor", reset_less=True).at("score")
        fraction = pipeline.place("input", self.fraction, "fraction", reset_less=True).at("exact")
        exponents, early, late = [], [], []
        for lane, score in enumerate(self.score):
            most = Q6_12.fraction + _LACKING
            m.submodules[f"score{lane}"] = narrowed = RoundingShifter(SUM.width + _LACKING, most, Q11_16)
            m.d.comb += [narrowed.i.eq(Cat(Const(0, _LACKING), score).as_signed()), narrowed.places.eq(most - lacking)]
            product = Signal(signed(Q11_16.width + FACTOR.width), name=f"product{lane}", reset_less=True)
            exact = Signal.like(product, name=f"exact{lane}")
            m.d.sync += [product.eq(narrowed.o * factor), exact.eq(product)]
            m.submodules[f"exponent{lane}"] = scaled = RoundingShifter(len(exact), FRACTIONS[-1], Q8_16, FRACTIONS[0])
            m.d.comb += [scaled.i.eq(exact), scaled.places.eq(fraction - FRACTIONS[0])]
            exponents.append(scaled.o)
            early.append(narrowed.clipped)
            late.append(scaled.clipped)
        clipped = pipeline.place("score", Cat(early), "clipped", reset_less=True).at("exponent")
        return exponents, pipeline.place("exponent", Cat(clipped, *late), "clips", reset_less=True)

    def _largest(self, m: Module, pipeline: Pipeline, platform: object, place: Placed, largest: Value) -> None:
        """Keep the largest exponent of each query, at "kept", one cycle behind that of a word."""
        valid = pipeline.place("input", self.valid, "present")
        m.submodules.largest = memory = ram(platform, self.spec.largest_memory, shape(Q8_16))
        write, before, read = memory.write_port(), *(memory.read_port(domain="comb") for _ in range(2))
        now, written = place.at("largest"), place.at("kept")
        fresh = pipeline.place("input", self.fresh, "fresh", reset_less=True).at("largest")
        kept = Signal(shape(Q8_16), reset_less=True)
        # the memory does not have yet what came in the cycle before: of the same query, which is known earlier
        one, other = place.at("exponent"), place.at("masked")
        again = valid.at("masked") & (one.query == other.query) & (one.bank == other.bank)
        again = pipeline.place("exponent", again, "again").at("largest")
        known = Mux(again, kept, before.data)
        m.d.comb += [
            before.addr.eq(Cat(now.query, now.bank)),
            write.addr.eq(Cat(written.query, written.bank)),
            write.data.eq(kept),
            write.en.eq(valid.at("kept")),
            read.addr.eq(self.largest_at),
            self.largest.eq(read.data),
        ]
        m.d.sync += kept.eq(Mux(fresh | (largest > known), largest, known))

    def _count(self, m: Module, pipeline: Pipeline, seen: Value, clips: Placed) -> None:
        """Count the values of a block that are clipped, of each bank."""
        hits = clips.at("exponent") & Cat(seen, seen)
        count = Signal(range(len(hits) + 1), reset_less=True)
        m.d.sync += count.eq(sum(hits))
        begins = pipeline.place("input", self.begins & self.valid, "begins").at("masked")
        bank = pipeline.place("exponent", self.place.bank, "bank", reset_less=True).at("masked")
        for number, port in enumerate(self.clipped):
            total = data_register(m, port, f"clipped{number}")
            with m.If(bank == number):
                m.d.sync += total.eq(Mux(begins, 0, total) + count)


def _maximum(m: Module, values: list[Signal]) -> Value:
    """The largest of a power of two of signed values, a register behind each comparison."""
    level = 0
    while len(values) > 1:
        found = []
        for number, (a, b) in enumerate(zip(values[::2], values[1::2], strict=True)):
            found.append(Signal.like(a, name=f"largest_{level}_{number}", reset_less=True))
            m.d.sync += found[-1].eq(Mux(a > b, a, b))
        values, level = found, level + 1
    return values[0]
