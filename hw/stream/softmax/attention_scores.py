"""Scores of attention, converted to exponents."""

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
"""Fraction bits that a sum lacks to 16, if both formats have the largest shift."""


def place_layout(spec: AttentionSoftmaxSpec) -> data.StructLayout:
    """Layout of a word's address: bank, query, and index of the word among the query's words."""
    parts = exact_log2(spec.keys // spec.exponentials)
    return data.StructLayout({"bank": 1, "query": exact_log2(spec.queries), "part": parts})


class AttentionScores(wiring.Component):
    """Convert a word of scores a cycle to exponents, without handshake, and track each query's largest exponent.

    Attributes
    ----------
    valid : In(1)
        All inputs below are valid: a word of scores.
    score : In, array of sums
    shift : In
        Sum of the shifts of the query format and the key format.
    factor, fraction : In
        Scale factor of the scores, and its fraction bits.
    given : In
        Address of the word.
    edge : In
        Last key visible to the query.
    fresh : In(1)
        The word is the first of its query.
    begins, ends : In(1)
        The word is the first, the last of its block.
    store : Out(1)
        `place` and `exponent` are valid.
    place : Out
        Address of the exponents.
    exponent : Out, array of Q8.16
    stored : Out(2)
        For each bank, high for a cycle: the block is stored, and its `clipped` and `largest` are final.
    clipped : Out, array of one number per bank
        Number of clipped values in the block.
    largest_at : In
        Address of `largest`: query in the low bits, bank above.
    largest : Out
        Largest exponent at `largest_at`, combinational.
    """

    def __init__(self, spec: AttentionSoftmaxSpec) -> None:
        self.spec = spec
        address, counts = place_layout(spec), spec.streams()["inverse"].fields[-1]
        super().__init__(
            {
                "valid": In(1),
                "score": In(data.ArrayLayout(shape(SUM), spec.exponentials)),
                "shift": In(SHIFT.width + 1),
                "factor": In(FACTOR.width),
                "fraction": In(range(FRACTIONS.stop)),
                "given": In(address),
                "edge": In(exact_log2(spec.keys)),
                "fresh": In(1),
                "begins": In(1),
                "ends": In(1),
                "store": Out(1),
                "place": Out(address),
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
                "distance": 1,
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
        address = pipeline.place("input", self.given, "place", reset_less=True)
        seen = self._seen(m, pipeline, address)
        exponents, clips = self._exponents(m, pipeline)
        m.d.comb += [self.store.eq(valid.at("exponent")), Value.cast(self.place).eq(Value.cast(address.at("exponent")))]
        m.d.comb += [port.eq(result) for port, result in zip(self.exponent, exponents, strict=True)]
        masked = []
        for lane, exponent in enumerate(exponents):
            masked.append(Signal(shape(Q8_16), name=f"masked{lane}", reset_less=True))
            m.d.sync += masked[-1].eq(Mux(seen.at("exponent")[lane], exponent, Q8_16.minimum))
        self._largest(m, pipeline, platform, address, _maximum(m, masked))
        self._count(m, pipeline, Mux(valid.at("exponent"), seen.at("exponent"), 0), clips)
        ends = self.ends & self.valid
        ends = Cat(ends & ~self.given.bank, ends & self.given.bank)
        m.d.comb += self.stored.eq(pipeline.place("input", ends, "ends").at("kept"))
        return m

    def _seen(self, m: Module, pipeline: Pipeline, address: Placed) -> Placed:
        """Visibility of the word's keys, a bit each, at "distance"."""
        edge = pipeline.place("input", self.edge, "edge", reset_less=True).at("edge")
        distance = Signal(signed(len(edge) + 1), reset_less=True)
        lanes = range(self.spec.exponentials)
        m.d.sync += distance.eq(edge - Cat(Const(0, exact_log2(len(lanes))), address.at("edge").part))
        return pipeline.place("distance", Cat(distance >= lane for lane in lanes), "seen", reset_less=True)

    def _exponents(self, m: Module, pipeline: Pipeline) -> tuple[list[Value], Placed]:
        """Exponents of the lanes, and clip flags of scores and exponents, both at "exponent"."""
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

    def _largest(self, m: Module, pipeline: Pipeline, platform: object, address: Placed, largest: Value) -> None:
        """Track the largest exponent of each query; written at "kept", a cycle after "largest"."""
        valid = pipeline.place("input", self.valid, "present")
        m.submodules.largest = memory = ram(platform, self.spec.largest_memory, shape(Q8_16))
        write, before, read = memory.write_port(), *(memory.read_port(domain="comb") for _ in range(2))
        now, written = address.at("largest"), address.at("kept")
        fresh = pipeline.place("input", self.fresh, "fresh", reset_less=True).at("largest")
        maximum = Signal(shape(Q8_16), reset_less=True)
        # the memory is a cycle late, so a query's next word takes the maximum from the register; compared ahead of time
        newer, older = address.at("exponent"), address.at("masked")
        again = valid.at("masked") & (newer.query == older.query) & (newer.bank == older.bank)
        again = pipeline.place("exponent", again, "again").at("largest")
        known = Mux(again, maximum, before.data)
        m.d.comb += [
            before.addr.eq(Cat(now.query, now.bank)),
            write.addr.eq(Cat(written.query, written.bank)),
            write.data.eq(maximum),
            write.en.eq(valid.at("kept")),
            read.addr.eq(self.largest_at),
            self.largest.eq(read.data),
        ]
        m.d.sync += maximum.eq(Mux(fresh | (largest > known), largest, known))

    def _count(self, m: Module, pipeline: Pipeline, seen: Value, clips: Placed) -> None:
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
    """Maximum of signed values, whose number is a power of two, with a register after each comparison."""
    level = 0
    while len(values) > 1:
        larger = []
        for number, (a, b) in enumerate(zip(values[::2], values[1::2], strict=True)):
            larger.append(Signal.like(a, name=f"largest_{level}_{number}", reset_less=True))
            m.d.sync += larger[-1].eq(Mux(a > b, a, b))
        values, level = larger, level + 1
    return values[0]
