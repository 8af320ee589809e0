"""RTL of `value_path`: a chunk sequencer, a bias memory, three pipelines without stalls, and a packer of chunks."""

from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.utils import exact_log2

from ....golden.fixed import Q8_16
from ....golden.stream.norms import Q11_16
from ....golden.stream.values.activation_function import ActivationFunctionSpec
from ....golden.stream.values.elementwise import ElementwiseSpec
from ....golden.stream.values.requantize import RequantizeSpec
from ....golden.stream.values.value_operation import OperationSettings, settings
from ....golden.stream.values.value_path import ASKED, UNDER_WAY, VALUES, ValuePathSpec
from ...ports import elements, members
from ...primitives.fifo import Fifo
from ...primitives.pipeline import Pipeline
from ...primitives.ram import ram
from ...primitives.registers import data_register
from ..memory.chunk_words import ChunkWords
from .activation_function import ActivationFunction
from .elementwise import Elementwise
from .requantize import Requantize
from .value_walk import ValueWalk, result_layout, words_layout

WORD = VALUES * Q11_16.width
ABOVE = Q11_16.width - Q8_16.width
"""Number of upper bits of a value that an activation does not use."""


class ValuePath(wiring.Component):
    """Requantize, activate and combine values, four a cycle; operations run in sequence.

    A word enters only if the result queue has space for it, so the pipelines never stall.
    """

    def __init__(self, spec: ValuePathSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, operation = self.spec, self.operation
        busy, begin = Signal(), Signal()
        chosen = settings(operation.payload, Mux)
        held = OperationSettings(*(_held(name, value) for name, value in chosen._asdict().items()))
        last = Signal(exact_log2(spec.columns), reset_less=True)
        m.d.comb += [operation.ready.eq(~busy), begin.eq(operation.valid & ~busy)]
        with m.If(begin):
            m.d.sync += [register.eq(value) for register, value in zip(held, chosen, strict=True)]
            m.d.sync += last.eq(operation.payload.features - 1)
        m.d.sync += busy.eq(begin | (busy & ~(self.done.valid & self.done.ready)))
        m.submodules.walk = walk = ValueWalk(spec)
        m.submodules.jobs = jobs = Fifo(words_layout(spec), ASKED)
        m.submodules.places = places = Fifo(result_layout(spec), UNDER_WAY)
        wiring.connect(m, walk.words, jobs.i)
        wiring.connect(m, walk.results, places.i)
        wiring.connect(m, walk.sentences, wiring.flipped(self.sentences))
        wiring.connect(m, walk.read, wiring.flipped(self.operands_read))
        m.d.comb += [walk.begin.eq(begin), walk.operation.eq(operation.payload)]
        operands = self._operands(m, walk)
        m.submodules.results = results = Fifo(WORD + 3 * VALUES, UNDER_WAY)
        word = self._enter(m, platform, held, jobs.o, operands, results.o.valid & results.o.ready)
        self._values(m, held, word, results)
        self._pack(m, last, places.o, results.o, begin)
        return m

    def _operands(self, m: Module, walk: ValueWalk) -> tuple[Any, Any]:
        """Split chunks into words; returns the stream of first values and the stream of second values."""
        queues = [ChunkWords(WORD, self.spec.words, ASKED) for _ in range(2)]
        chunks, ready = self.operands, Signal(2)
        m.d.comb += chunks.ready.eq(ready.bit_select(chunks.payload.tag, 1))
        for number, (name, queue) in enumerate(zip(("first", "second"), queues, strict=True)):
            m.submodules[name] = queue
            m.d.comb += [
                queue.i.valid.eq(chunks.valid & (chunks.payload.tag == number)),
                queue.i.payload.eq(Value.cast(chunks.payload.value)),
                ready[number].eq(queue.i.ready),
                queue.asked.eq(walk.asked[number]),
                walk.room[number].eq(queue.room),
            ]
        return queues[0].o, queues[1].o

    def _biases(self, m: Module, platform: object, release: Value) -> tuple[Value, Any]:
        """Fill the bias memory; returns a flag, high when it is complete, and the read port."""
        spec, vectors = self.spec, self.biases
        m.submodules.biases = memory = ram(platform, spec.bias_memory)
        write, read = memory.write_port(), memory.read_port()
        full, index = Signal(), Signal.like(write.addr)
        m.d.comb += [
            vectors.ready.eq(~full),
            write.en.eq(vectors.valid & ~full),
            write.addr.eq(index),
            write.data.eq(Cat(vectors.payload.plus, vectors.payload.minus)),
        ]
        with m.If(write.en):
            m.d.sync += index.eq(Mux(vectors.payload.last, 0, index + 1))
        m.d.sync += full.eq(Mux(full, ~release, write.en & vectors.payload.last))
        return full, read

    def _enter(
        self, m: Module, platform: object, held: OperationSettings, job: Any, operands: tuple[Any, Any], leaves: Value
    ) -> "_Word":
        """Let a word and its operands enter, once the result queue has space for it."""
        spec, (first, second) = self.spec, operands
        word, room = Signal(range(spec.words)), Signal(range(UNDER_WAY + 1), init=UNDER_WAY)
        may, go, release = Signal(), Signal(), Signal()
        full, biases = self._biases(m, platform, release)
        operands_ready = (~held.biased | full) & (~held.joined | second.valid)
        m.d.comb += [
            release.eq(job.valid & job.payload.release),
            may.eq(job.valid & ~job.payload.release & room.any() & operands_ready),
            go.eq(may & Mux(held.sums, self.sums.valid, first.valid)),
            self.sums.ready.eq(may & held.sums),
            first.ready.eq(may & ~held.sums),
            second.ready.eq(go & held.joined),
            job.ready.eq(release | (go & (word == spec.words - 1))),
            biases.addr.eq(Cat(word, job.payload.group)),
        ]
        with m.If(go):
            m.d.sync += word.eq(word + 1)
        m.d.sync += room.eq(room - go + leaves)
        side, bias = Signal(reset_less=True), Signal(VALUES * Q8_16.width, reset_less=True)
        m.d.sync += [
            side.eq(job.payload.side),
            bias.eq(Mux(held.biased, biases.data.word_select(side, len(bias)), 0)),
        ]
        sums = elements(self.sums.payload.sum, spec.streams()["sums"].fields[0])
        values = [Mux(held.sums, number, _value(first.payload, lane)) for lane, number in enumerate(sums)]
        return _Word(go, values, bias, second.payload)

    def _values(self, m: Module, held: OperationSettings, word: "_Word", results: Fifo) -> None:
        """Connect the three pipelines, from the entering word to the result queue."""
        made = Requantize(RequantizeSpec(lanes=VALUES))
        passed = ActivationFunction(ActivationFunctionSpec(lanes=VALUES, tag=VALUES * (ABOVE + 1)))
        joined = Elementwise(ElementwiseSpec(lanes=VALUES, tag=2 * VALUES))
        m.submodules.requantize, m.submodules.activation, m.submodules.elementwise = made, passed, joined
        stages = {"word": 0, "made": 2, "passed": made.spec.latency, "joined": passed.spec.latency}
        pipeline = Pipeline(m, stages)
        entering = Signal(2)
        sums = Cat(word.values)
        second = pipeline.place("word", word.second, "second", reset_less=True).at("joined")
        active = Signal(reset_less=True)
        m.d.sync += active.eq(held.activation.any())
        sum_in, value_in, pair_in = (part.i.payload for part in (made, passed, joined))
        above = [value[Q8_16.width :] for value in _lanes(made)]
        m.d.comb += [
            made.i.valid.eq(pipeline.place_flag("word", word.go, entering).at("made")),
            Value.cast(sum_in.sum).eq(pipeline.place("word", sums, "sums", reset_less=True).at("made")),
            Value.cast(sum_in.bias).eq(word.bias),
            sum_in.fraction.eq(held.fraction),
            sum_in.input_shift.eq(held.sum_shift),
            sum_in.output_shift.eq(held.value_shift),
            sum_in.form.eq(held.form),
            passed.i.valid.eq(made.o.valid),
            Value.cast(value_in.value).eq(Cat(value[: Q8_16.width] for value in _lanes(made))),
            value_in.kind.eq(held.activation),
            value_in.input_shift.eq(held.taken_shift),
            value_in.output_shift.eq(held.made_shift),
            # the upper bits of a value bypass the activation
            value_in.tag.eq(Cat(above, made.o.payload.clipped)),
            joined.i.valid.eq(passed.o.valid),
            Value.cast(pair_in.second).eq(second),
            pair_in.kind.eq(held.join),
            pair_in.first_shift.eq(held.first_shift),
            pair_in.second_shift.eq(held.second_shift),
            pair_in.output_shift.eq(held.result_shift),
            pair_in.tag.eq(Cat(passed.o.payload.tag[VALUES * ABOVE :], passed.o.payload.clipped)),
            *(part.o.ready.eq(1) for part in (made, passed, joined)),
            results.i.valid.eq(joined.o.valid),
            results.i.payload.eq(Cat(joined.o.payload.value, joined.o.payload.clipped, joined.o.payload.tag)),
        ]
        for lane, value in enumerate(_lanes(passed)):
            above = passed.o.payload.tag.word_select(lane, ABOVE)
            m.d.comb += pair_in.first[lane].eq(Cat(value, Mux(active, value[-1].replicate(ABOVE), above)))

    def _pack(self, m: Module, last: Signal, target_stream: Any, result: Any, begin: Signal) -> None:
        """Write words as chunks, and chunks of zeros; count clipped values, and report the end of the operation."""
        spec, write, target = self.spec, self.write, target_stream.payload
        word, step, empty, end = Signal(range(spec.words)), Signal(), Signal(), Signal()
        free, final = ~write.valid | write.ready, word == spec.words - 1
        ends = (step & final) | empty
        m.d.comb += [
            step.eq(target_stream.valid & ~target.end & ~target.empty & result.valid & free),
            empty.eq(target_stream.valid & target.empty & free),
            end.eq(target_stream.valid & target.end & ~write.valid & (~self.done.valid | self.done.ready)),
            result.ready.eq(step),
            target_stream.ready.eq(ends | end),
        ]
        with m.If(step):
            m.d.sync += word.eq(word + 1)
        # timing: the mask of the next word gates the values, so it is registered
        inside = Signal(VALUES, reset_less=True)
        m.d.sync += inside.eq(Mux(step, self._inside(word + 1, last), self._inside(word, last)))
        present = [~target.empty & (~target.partial | flag) for flag in inside]
        written = data_register(m, write.payload, "written")
        values = [Mux(flag, _value(result.payload, lane), 0) for lane, flag in enumerate(present)]
        for number in range(spec.words):
            # timing: the last word is written in every step, so that the slow `ends` is not in its enable
            with m.If(empty | (step & (word == number if number < spec.words - 1 else 1))):
                m.d.sync += Value.cast(written.value).word_select(number, WORD).eq(Cat(values))
        with m.If(ends):
            m.d.sync += [written[name].eq(target.place[name]) for name in ("wide", "address", "part")]
        # at most two stages: after a reset of one cycle, no old count may arrive after the next `begin`
        clipped = Signal(3 * VALUES)
        count = Signal(range(len(clipped) + 1), reset_less=True)
        total = data_register(m, self.done.payload.clipped, "clipped")
        m.d.sync += [
            write.valid.eq(ends | (write.valid & ~write.ready)),
            self.done.valid.eq(end | (self.done.valid & ~self.done.ready)),
            clipped.eq(result.payload[WORD:] & Mux(step, Cat(present), 0).replicate(3)),
            count.eq(sum(clipped)),
            total.eq(Mux(begin, 0, total + count)),
        ]

    def _inside(self, word: Value, last: Value) -> Value:
        """Mask of a word's values that are features; the first value of a chunk always is a feature."""
        places = (Cat(Const(lane, exact_log2(VALUES)), word[: exact_log2(self.spec.words)]) for lane in range(VALUES))
        # if a chunk is a word, lane 0 needs no comparison
        return Cat(index <= last if lane or self.spec.words > 1 else 1 for lane, index in enumerate(places))


class _Word(NamedTuple):
    """A word that enters the pipelines.

    Parameters
    ----------
    go : Value
        The word is valid.
    values : list of Value
        Sums or values.
    bias : Value
        Biases of all lanes, two cycles after the word.
    second : Value
        Second values of all lanes.
    """

    go: Value
    values: list[Value]
    bias: Value
    second: Value


def _held(name: str, value: Any) -> Signal:
    return Signal(len(Value.cast(value)), name=name, reset_less=True)


def _value(word: Value, lane: int) -> Value:
    return word.word_select(lane, Q11_16.width).as_signed()


def _lanes(part: Any) -> list[Value]:
    return elements(part.o.payload.value, part.spec.streams()["o"].fields[0])
