"""Stream engine: executes programs."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.stream.array.array_path import TileKind
from ....golden.stream.engine.stream_engine import StreamEngineSpec
from ....golden.stream.instruction import Kind
from ....golden.stream.machine.program_sequencer import ProgramSequencerSpec
from ....golden.stream.values.pool_head import KINDS as POOL_KINDS
from ....golden.stream.weights.word_offsets import WordOffsetsSpec
from ...primitives.ready_fifo import ReadyFifo
from ...primitives.registers import data_register, replicas
from ..array.array_path import ArrayPath
from ..array.linear_sequencer import LinearSequencer
from ..array.stationary_load import StationaryLoad
from ..memory.activation_memory import ActivationMemory
from ..memory.row_loader import RowLoader
from ..memory.sample_loader import SampleLoader
from ..memory.sentence_table import SentenceTable
from ..softmax.attention_sequencer import AttentionSequencer
from ..softmax.attention_softmax import AttentionSoftmax
from ..softmax.context_scale import ContextScale
from ..values.norm_path import NormPath
from ..values.pool_head import PoolHead
from ..values.rotary import Rotary
from ..values.value_path import ValuePath
from ..weights.weight_feed import WeightFeed
from .buffer_bases import BUFFERS, BufferBases
from .engine_port import EnginePort
from .unit_choice import Unit, UnitChoice, alike

_WAITING = 2
"""Depth of queues before slow consumers, without the output register: reads of rows and keys, tiles, vectors."""


class StreamEngine(wiring.Component):
    """Run the instructions of a program in sequence; meanwhile fetch the next instruction's weights.

    Parameters
    ----------
    sequencer, offsets : ProgramSequencerSpec, WordOffsetsSpec
        Sources of instructions and of delta offsets.

    Attributes
    ----------
    port : In, `EnginePort`
        Connection to the trainer.
    """

    def __init__(
        self,
        spec: StreamEngineSpec,
        sequencer: ProgramSequencerSpec,
        offsets: WordOffsetsSpec,
        address: int = ADDRESS_BITS,
    ) -> None:
        self.spec = spec
        self.memory, self.table = ActivationMemory(spec.memory), SentenceTable(spec.size.sums)
        self.samples, self.kept = SampleLoader(spec.samples), RowLoader(spec.chunks, spec.size.sums)
        self.bases = BufferBases(spec.chunks)
        self.feed = WeightFeed(spec.feed, address)
        self.linear, self.array = LinearSequencer(spec.linear), ArrayPath(spec.array)
        self.stationary, self.attention = StationaryLoad(spec.stationary), AttentionSequencer(spec.attention)
        self.softmax, self.scale = AttentionSoftmax(spec.softmax), ContextScale(spec.scale)
        self.values, self.norm = ValuePath(spec.values), NormPath(spec.norm)
        self.pool, self.rotary = PoolHead(spec.pool), Rotary(spec.rotary)
        self.units: dict[Unit, Any] = {
            Unit.VALUES: self.values,
            Unit.NORM: self.norm,
            Unit.POOL: self.pool,
            Unit.ROTARY: self.rotary,
            Unit.ATTENTION: self.attention,
        }
        super().__init__({"port": In(EnginePort(spec.chunks, sequencer, offsets, address))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name in (
            "memory", "table", "samples", "kept", "bases", "feed", "linear", "array", "stationary", "attention",
            "softmax", "scale", "values", "norm", "pool", "rotary",
        ):  # fmt: skip
            m.submodules[name] = getattr(self, name)
        # number of rows for each sign: tokens, or sentences after a pooling
        self._rows = Signal.like(self.port.rows, reset_less=True)
        self._choice = UnitChoice(m, self.spec.size.columns)
        self._works, self._following = self._choice.works, self._choice.following
        # `port.kept`, stable long before a load: a copy for handshakes, a copy for chunk contents
        self._kept = replicas(2, "kept_rows")
        m.d.sync += [flag.eq(self.port.kept) for flag in self._kept]
        # the next instruction, and flags: it is valid; its tensors are requested; its vectors come next
        self._held = Signal.like(self.port.instruction.payload, reset_less=True)
        self._holds, self._fed, self._counted = Signal(), Signal(), Signal()
        self._weights(m)
        self._array(m)
        self._attention(m)
        self._memory(m)
        self._sentences(m)
        self._operations(m)
        self._sequence(m)
        return m

    # -- streams between the blocks ------------------------------------------------------------------------------------

    def _weights(self, m: Module) -> None:
        """Accept an instruction, and pass it to the weight feed at once."""
        feed, port, taken = self.feed, self.port, Signal()
        for name in ("request", "stream_read", "corrections_read"):
            wiring.connect(m, getattr(feed, name), wiring.flipped(getattr(port, name)))
        wiring.connect(m, wiring.flipped(port.offsets), feed.offsets)
        operation = feed.operation.payload
        of_pass = {"longest": port.longest, "amount": port.amount}
        m.d.comb += [
            port.instruction.ready.eq(~self._holds),
            taken.eq(port.instruction.valid & port.instruction.ready),
            feed.address.eq(port.weights),
            feed.operation.valid.eq(self._holds & ~self._fed),
            *(
                getattr(operation, name).eq(of_pass[name] if name in of_pass else getattr(self._held, name))
                for name in operation.shape().members
            ),
            port.failed.eq(feed.failed),
            port.number.eq(feed.number),
            port.fetched.eq(feed.fetched),
        ]
        with m.If(taken):
            m.d.sync += [self._holds.eq(1), self._fed.eq(0), self._held.eq(port.instruction.payload)]
        with m.Elif(feed.operation.valid & feed.operation.ready):
            m.d.sync += self._fed.eq(1)
        self._vectors(m, taken)

    def _vectors(self, m: Module, taken: Value) -> None:
        """Route vectors to the unit of their instruction: biases as soon as they fit, others while it works."""
        port, held, vector = self.port, self._held, _queued(m, "vectors", self.feed.v)
        # number of expected vectors; the receiving unit as one-hot flags, for a fast handshake
        remaining = Signal(range(self.spec.size.sums + 1))
        vectors = {Unit.VALUES: self.values.biases, Unit.NORM: self.norm.parameters, Unit.ROTARY: self.rotary.turns}
        takes = {unit: Signal(name=f"takes_{unit.name.lower()}") for unit in vectors}
        count, owner = Signal.like(remaining), Signal(Unit)
        with m.Switch(held.kind):
            with m.Case(Kind.LINEAR):
                m.d.comb += [owner.eq(Unit.VALUES), count.eq(held.biased)]
            with m.Case(Kind.NORM):
                m.d.comb += [owner.eq(Unit.NORM), count.eq(held.biased + 1)]
            with m.Case(Kind.POSITIONS):
                m.d.comb += [owner.eq(Unit.VALUES), count.eq(port.longest)]
            with m.Case(Kind.ATTENTION):
                m.d.comb += [owner.eq(Unit.ROTARY), count.eq(Mux(held.rotary, port.longest, 0))]
        with m.If(taken):
            m.d.sync += self._counted.eq(0)
        with m.Elif(self._holds & ~self._counted & (remaining == 0)):
            m.d.sync += [self._counted.eq(1), remaining.eq(count)]
            m.d.sync += [flag.eq((count != 0) & (owner == unit)) for unit, flag in takes.items()]
        over = vector.valid & vector.ready & vector.payload.last
        ends = over & (remaining == 1)
        with m.If(over):
            m.d.sync += remaining.eq(remaining - 1)
        with m.If(ends):
            m.d.sync += [flag.eq(0) for flag in takes.values()]
        for unit, stream in vectors.items():
            passes = takes[unit]
            if unit != Unit.VALUES:
                passes = Signal(name=f"passes_{unit.name.lower()}")
                m.d.sync += passes.eq(takes[unit] & (self._following == unit) & ~ends)
            with m.If(passes):
                m.d.comb += [stream.valid.eq(vector.valid), vector.ready.eq(stream.ready)]
            m.d.comb += alike(stream.payload, vector.payload)

    def _array(self, m: Module) -> None:
        array, linear, attention, memory, feed = self.array, self.linear, self.attention, self.memory, self.feed
        layer = self._works[Unit.VALUES]
        rows, fields, tag = self.memory.rows, array.rows.payload, list(self.spec.array.row_fields)
        tiles = _queued(m, "order", attention.order)
        asked = memory.rows_read.signature.flip().create(path=("rows_asked",))
        wiring.connect(m, _queued(m, "rows_read", asked), memory.rows_read)
        m.d.comb += [
            Cat(getattr(fields, item.name) for item in tag).eq(rows.payload.tag),
            array.rows.valid.eq(rows.valid),
            rows.ready.eq(array.rows.ready),
            fields.value.eq(rows.payload.value),
            array.weights.valid.eq(feed.w.valid),
            array.weights.payload.weight.eq(feed.w.payload.weight),
            feed.w.ready.eq(array.weights.ready),
            array.order.valid.eq(Mux(layer, linear.order.valid, tiles.valid)),
            array.order.payload.rows.eq(Mux(layer, linear.order.payload.rows, tiles.payload.rows)),
            array.order.payload.used.eq(Mux(layer, linear.order.payload.used, self.spec.size.lanes)),
            array.order.payload.kind.eq(Mux(layer, TileKind.LINEAR, tiles.payload.kind)),
            *(order.ready.eq(array.order.ready) for order in (linear.order, tiles)),
            asked.valid.eq(Mux(layer, linear.rows_read.valid, attention.rows_read.valid)),
            *(sequencer.rows_read.ready.eq(asked.ready) for sequencer in (linear, attention)),
            self.values.sums.valid.eq(array.sums.valid),
            self.values.sums.payload.sum.eq(array.sums.payload.sum),
            array.sums.ready.eq(self.values.sums.ready),
        ]
        read, ours, theirs = asked.payload, linear.rows_read.payload, attention.rows_read.payload
        m.d.comb += [
            read.address.eq(Mux(layer, ours.address, theirs.address)),
            read.tag.eq(Cat(Mux(layer, getattr(ours, item.name), getattr(theirs, item.name)) for item in tag)),
        ]

    def _attention(self, m: Module) -> None:
        array, attention, softmax, scale = self.array, self.attention, self.softmax, self.scale
        keys, tile = self.memory.keys, self.stationary.i
        turn, part, zero = (getattr(tile.payload, name) for name in ("turn", "part", "zero"))
        reads = _queued(m, "keys_read", attention.keys_read)
        tag = reads.payload
        m.d.comb += [
            self.memory.keys_read.valid.eq(reads.valid),
            self.memory.keys_read.payload.address.eq(tag.address),
            self.memory.keys_read.payload.tag.eq(Cat(tag.turn, tag.part, tag.zero)),
            reads.ready.eq(self.memory.keys_read.ready),
            tile.valid.eq(keys.valid),
            tile.payload.value.eq(keys.payload.value),
            Cat(turn, part, zero).eq(keys.payload.tag),
            keys.ready.eq(tile.ready),
        ]
        wiring.connect(m, self.stationary.o, array.keys)
        wiring.connect(m, attention.softmax, softmax.operation)
        wiring.connect(m, array.scores, softmax.scores)
        wiring.connect(m, softmax.inverse, attention.inverse)
        wiring.connect(m, attention.reciprocals, scale.inverse)
        wiring.connect(m, scale.o, attention.contexts)
        weights, terms, sums, into = softmax.o, array.terms, array.contexts, scale.i
        both = sums.valid & attention.scales.valid
        m.d.comb += [
            terms.valid.eq(weights.valid),
            *alike(terms.payload, weights.payload),
            weights.ready.eq(terms.ready),
            into.valid.eq(both),
            into.payload.sum.eq(sums.payload.sum),
            *alike(into.payload, attention.scales.payload),
            sums.ready.eq(into.ready & attention.scales.valid),
            attention.scales.ready.eq(into.ready & sums.valid),
        ]

    def _memory(self, m: Module) -> None:
        """Connect the active unit to the memory; without an active unit, write samples and read results."""
        memory, port = self.memory, self.port
        readers = {unit: block for unit, block in self.units.items() if hasattr(block, "operands_read")}
        self._choice.choose(
            m,
            memory.operands,
            {unit: block.operands for unit, block in readers.items()} | {Unit.OUTSIDE: port.operands},
        )
        reads = {unit: block.operands_read for unit, block in readers.items()} | {Unit.OUTSIDE: port.operands_read}
        self._choice.merge(m, self._operands_read(m), reads)
        outside, rows, samples = memory.write.signature.flip().create(path=("loaded",)), self.kept.write, self.samples
        m.d.comb += [
            outside.valid.eq(Mux(self._kept[0], rows.valid, samples.write.valid)),
            outside.payload.eq(Mux(self._kept[1], Value.cast(rows.payload), Value.cast(samples.write.payload))),
            *(loader.ready.eq(outside.ready) for loader in (rows, samples.write)),
        ]
        writes = {unit: block.write for unit, block in self.units.items()} | {Unit.OUTSIDE: outside}
        self._choice.merge(m, memory.write, writes)

    def _operands_read(self, m: Module) -> Any:
        """Register operand reads: their priority over keys and rows would start a long path."""
        read = self.memory.operands_read
        asked = read.signature.flip().create(path=("operands_asked",))
        m.d.comb += asked.ready.eq(~read.valid | read.ready)
        with m.If(asked.ready):
            m.d.sync += [read.valid.eq(asked.valid), data_register(m, read.payload).eq(asked.payload)]
        return asked

    def _sentences(self, m: Module) -> None:
        table, port = self.table, self.port
        wiring.connect(m, wiring.flipped(port.sentence), table.sentence)
        users = {unit: block.sentences for unit, block in self.units.items() if hasattr(block, "sentences")}
        self._choice.choose(m, table.sentences, users)
        m.d.comb += [table.clear.eq(port.load), table.rows.eq(port.rows), table.count.eq(port.sentences)]
        samples, kept = self.samples, self.kept
        settings = samples.operation.payload
        for taken, chosen in ((samples.beats, ~self._kept[0]), (kept.beats, self._kept[0])):
            m.d.comb += taken.valid.eq(port.beats.valid & chosen)
        m.d.comb += [
            Value.cast(samples.beats.payload).eq(port.beats.payload),
            kept.beats.payload.eq(port.beats.payload),
            port.beats.ready.eq(Mux(self._kept[0], kept.beats.ready, samples.beats.ready)),
            kept.rows.eq(port.rows),
            kept.row_beats.eq(port.row_beats),
            kept.alike.eq(port.alike),
            kept.stride.eq(port.capacity),
            kept.wide.eq(self.bases.wide[0]),
            kept.base.eq(self.bases.base[0]),
        ]
        m.d.comb += [
            settings.rows.eq(port.rows),
            settings.features.eq(port.features),
            settings.stride.eq(port.capacity),
            settings.wide.eq(self.bases.wide[0]),
            settings.base.eq(self.bases.base[0]),
        ]

    # -- operations ----------------------------------------------------------------------------------------------------

    def _operations(self, m: Module) -> None:
        instruction, port, bases = self._held, self.port, self.bases
        linear = instruction.kind == Kind.LINEAR
        shared = {
            "rows": self._rows,
            "sentences": port.sentences,
            "longest": port.longest,
            "stride": port.capacity,
        }
        places = {
            **{name: bases.base[index] for index, name in enumerate(BUFFERS)},
            **{f"{name}_wide": bases.wide[index] for index, name in enumerate(BUFFERS)},
        }
        attention = {
            "queries": places["source"],
            "keys": places["second"],
            "values": places["third"],
            "fraction": instruction.factor_fraction,
            "query_shift": instruction.source_shift,
            "key_shift": instruction.second_shift,
            "value_shift": instruction.third_shift,
            "output_shift": instruction.result_shift,
            "sentences": port.sentences << 1,
        }
        joined = {name: Mux(linear, places[f"other{name[6:]}"], places[name]) for name in ("second", "second_wide")}
        own_fields: dict[Any, dict[str, Any]] = {
            self.linear: {},
            self.values: joined
            | {
                "features": instruction.outputs,
                "second_shift": Mux(linear, instruction.other_shift, instruction.second_shift),
            },
            self.norm: {"features": instruction.inputs},
            self.pool: {
                "features": instruction.inputs,
                "kind": Mux(instruction.kind == Kind.UNIT, POOL_KINDS.index("unit"), instruction.pool),
                "rows": Mux(instruction.kind == Kind.UNIT, self._rows, port.sentences) << 1,
            },
            self.rotary: attention,
            self.attention: attention,
        }
        for unit, fields in own_fields.items():
            chosen = shared | places | fields
            payload = unit.operation.payload
            for name in payload.shape().members:
                m.d.comb += getattr(payload, name).eq(chosen[name] if name in chosen else getattr(instruction, name))

    def _sequence(self, m: Module) -> None:
        """State machine of a pass: load samples; for each instruction compute base addresses, run and complete it."""
        port, bases, samples, instruction = self.port, self.bases, self.samples, self._held
        last, pooled, turned = Signal(reset_less=True), Signal(reset_less=True), Signal()
        waits = {unit: Signal(name=f"waits{number}") for number, unit in enumerate((*self.units.values(), self.linear))}
        for unit, flag in waits.items():
            m.d.comb += unit.operation.valid.eq(flag)
            with m.If(unit.operation.ready):
                m.d.sync += flag.eq(0)
        m.d.sync += port.done.eq(0)
        m.d.comb += bases.capacity.eq(port.capacity)
        m.d.comb += (into.eq(getattr(instruction, name)) for into, name in zip(bases.buffers, BUFFERS, strict=True))
        with m.FSM():
            with m.State("IDLE"):
                with m.If(port.load):
                    m.d.comb += bases.start.eq(1)
                    m.next = "INPUTS"
                with m.If(port.start):
                    m.d.sync += [self._rows.eq(port.rows), port.clipped.eq(0), port.operation.eq(1)]
                    m.next = "FETCH"
            with m.State("INPUTS"):
                m.d.comb += bases.buffers[0].eq(port.inputs)
                with m.If(bases.done):
                    m.next = "SAMPLES"
            with m.State("SAMPLES"):
                m.d.comb += [samples.operation.valid.eq(~port.kept), self.kept.start.eq(port.kept)]
                with m.If(samples.operation.ready | port.kept):
                    m.next = "LOADING"
            with m.State("LOADING"):
                m.d.comb += samples.done.ready.eq(1)
                with m.If(samples.done.valid | self.kept.done):
                    m.d.comb += port.loaded.eq(1)
                    m.next = "IDLE"
            with m.State("FETCH"):
                m.d.sync += turned.eq(0)
                with m.If(self._holds & self._fed & self._counted):
                    m.d.comb += bases.start.eq(1)
                    m.next = "PLACES"
            with m.State("PLACES"), m.If(bases.done):
                m.next = "OPERATION"
            with m.State("OPERATION"):
                m.d.comb += self.table.restart.eq(1)
                m.d.sync += [last.eq(instruction.last), pooled.eq(instruction.kind == Kind.POOL)]
                self._begin(m, waits, turned)
                m.next = "GIVEN"
            with m.State("GIVEN"), m.If(~Cat(waits.values()).any()):
                # the unit has its own copy of the fields; after rotary, attention still needs the instruction
                with m.If(self._choice.unit != Unit.ROTARY):
                    m.d.sync += self._holds.eq(0)
                m.next = "RUN"
            with m.State("RUN"):
                self._end(m, last, pooled, turned)

    def _begin(self, m: Module, waits: dict[Any, Signal], turned: Signal) -> None:
        kind = self._held.kind
        with m.Switch(kind):
            with m.Case(Kind.NORM):
                m.d.comb += self._following.eq(Unit.NORM)
                m.d.sync += waits[self.norm].eq(1)
            with m.Case(Kind.POOL, Kind.UNIT):
                m.d.comb += self._following.eq(Unit.POOL)
                m.d.sync += waits[self.pool].eq(1)
            with m.Case(Kind.ATTENTION):
                rotates = self._held.rotary.bool() & ~turned
                m.d.comb += self._following.eq(Mux(rotates, Unit.ROTARY, Unit.ATTENTION))
                m.d.sync += [waits[self.rotary].eq(rotates), waits[self.attention].eq(~rotates)]
            with m.Default():
                m.d.comb += self._following.eq(Unit.VALUES)
                m.d.sync += [waits[self.values].eq(1), waits[self.linear].eq(kind == Kind.LINEAR)]

    def _end(self, m: Module, last: Signal, pooled: Signal, turned: Signal) -> None:
        """When the unit is done, add its clipped values, and go to the next operation."""
        port = self.port
        for unit, block in self.units.items():
            with m.If(self._works[unit]):
                m.d.comb += block.done.ready.eq(1)
                with m.If(block.done.valid):
                    m.d.sync += port.clipped.eq(port.clipped + block.done.payload.clipped)
                    if unit == Unit.ROTARY:
                        m.d.sync += turned.eq(1)
                        m.next = "OPERATION"
                    else:
                        m.d.comb += self._following.eq(Unit.OUTSIDE)
                        m.d.sync += port.operation.eq(port.operation + 1)
                        m.next = "FETCH"
                        with m.If(last):
                            m.d.sync += [port.done.eq(1), port.operation.eq(0)]
                            m.next = "IDLE"
                        with m.If(pooled):
                            m.d.sync += self._rows.eq(port.sentences)


def _queued(m: Module, name: str, source: Any) -> Any:
    """Put a queue between a stream and a slow consumer; returns the output of the queue."""
    m.submodules[name] = queue = ReadyFifo(source.payload.shape(), _WAITING)
    wiring.connect(m, source, queue.i)
    return queue.o
