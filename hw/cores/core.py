"""The engine and what feeds it: the memories, the order of visits, the threads that follow each other."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.cores.instantft_registers import Command
from ...golden.lora.mapping import AdapterMapping
from ..lora.batch_scheduler import Batches
from ..lora.batch_unpacker import Loader
from ..lora.engine import AdapterEngine
from ..lora.logit_writer import Logits
from ..lora.parameter_transfer import Transfer
from ..lora.sample_scheduler import Visits
from ..nn.sample_writer import SampleWriter
from ..primitives.fifo import Fifo
from .memory_system import Memories, buses

CONFIGURATION = (
    *("parameters", "adapters", "samples", "order", "cache", "logits"),
    *("cache_entries", "samples_per_epoch", "epochs", "batch", "rate", "mode"),
)
"""Registers that a command reads."""


class Core(wiring.Component):
    """The core behind its registers, which reset it after an error.

    Parameters
    ----------
    mapping : AdapterMapping
    batch, places : int
        Most samples of a batch, of the cache.
    ports : int
        To the memory outside.
    store : int
        Beats of the cache on the chip; 0 where it is outside.

    Attributes
    ----------
    start, command, ready, finished
        Begins a command, when ready; it has ended.
    failed, error, error_address
        It cannot go on; stays so until reset.
    abort, quiet
        Stop what goes to the memory; nothing is on its way there any more.
    reader0, writer0, ...
        The ports.
    batch_done, missed, clipped
        What the registers count: batches, new samples, values clipped in a cycle.
    monitor_...
        See `monitor`.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, places: int, ports: int = 1, store: int = 0) -> None:
        self.mapping, self.most, self.ports, self.store = mapping, batch, ports, store
        self.engine = AdapterEngine(mapping, batch)
        self.visits = Visits(mapping, batch, places, shared=store > 0)
        self.batches = Batches(mapping, batch)
        self.memories = Memories(ports, store)
        super().__init__(
            {
                **dict.fromkeys(("start", "abort"), In(1)),
                **dict.fromkeys(("ready", "finished", "failed", "quiet", "batch_done", "missed"), Out(1)),
                "command": In(Command),
                "error": Out(4),
                "error_address": Out(32),
                **dict.fromkeys(CONFIGURATION, In(32)),
                "clipped": Out(8),
                **buses(ports),
                **monitor(mapping),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, visits, batches, memories = self.engine, self.visits, self.batches, self.memories
        m.submodules.engine, m.submodules.visits = engine, visits
        m.submodules.batches, m.submodules.memories = batches, memories
        m.submodules.image = image = SampleWriter(self.mapping.forward)
        m.submodules.loader = loader = Loader(self.mapping, self.most)
        m.submodules.logits = logits = Logits(self.mapping)
        m.submodules.transfer = transfer = Transfer(self.mapping)
        m.submodules.addresses = records = Fifo(32, 4)
        # short queues, so that nobody's ready depends on another's
        taken = {}
        streams = {"image": image.i, "samples": loader.samples, "records": loader.records, "order": visits.order_beats}
        for name, stream in streams.items():
            m.submodules[f"{name}_queue"] = queue = Fifo(128, 4)
            wiring.connect(m, queue.o, stream)
            taken[name] = queue.i
        for bus in buses(self.ports):
            wiring.connect(m, getattr(memories, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, engine.logits, logits.i)
        raw = Signal()
        tune, infer = Signal(), Signal()
        # they stand still long before they are needed
        m.d.sync += [
            tune.eq(self.command == Command.TUNE),
            infer.eq(self.command == Command.INFER),
            raw.eq(self.mode[0] | infer),
            engine.show.eq(self.mode[1] | infer),
        ]
        m.d.comb += [
            engine.raw.eq(raw),
            engine.rate.eq(self.rate),
            engine.learn.eq(tune),
            self.clipped.eq(engine.clipped),
            self.missed.eq(visits.missed),
            self.monitor_valid.eq(engine.monitor),
            self.monitor_beat.eq(engine.beat),
            self.monitor_data.eq(engine.updated),
            memories.stop.eq(self.abort),
            self.quiet.eq(memories.quiet),
        ]
        running = Signal()
        waiting = self._compute(m, logits, running)
        self._record(m, image, records, running, waiting)
        self._load(m, loader, raw)
        self._transfer(m, transfer, logits)
        self._memories(m, records, taken, logits, transfer)
        self._commands(m, transfer, logits, infer, raw)
        m.d.comb += [
            self.failed.eq(memories.failed | visits.failed),
            self.error.eq(Mux(memories.failed, memories.error, visits.error)),
            self.error_address.eq(Mux(memories.failed, memories.error_address, visits.error_address)),
        ]
        return m

    def _compute(self, m: Module, logits: Logits, running: Signal) -> Value:
        """Batches that are loaded, one after the other, between new samples; whether there is one."""
        engine, batches = self.engine, self.batches
        waiting, busy, shown = Signal(2), Signal(), Signal()
        half, counts = Signal(), [Signal.like(batches.count, name=f"count{number}") for number in range(2)]
        with m.If(batches.given):
            with m.If(batches.half):
                m.d.sync += counts[1].eq(batches.count)
            with m.Else():
                m.d.sync += counts[0].eq(batches.count)
        begin = Signal()
        ended = Signal()
        m.d.comb += [
            begin.eq((waiting != 0) & ~busy & shown & ~running),
            ended.eq(engine.done),
            engine.start.eq(begin),
            engine.half.eq(half),
            self.batch_done.eq(ended),
            self.monitor_done.eq(ended & engine.learn),
        ]
        over = (waiting == 0) & shown & self.memories.settled & batches.idle
        m.d.sync += [batches.free.eq(waiting != 2), self.visits.over.eq(over)]
        m.d.sync += shown.eq(logits.empty)
        count = Signal.like(batches.count)
        m.d.sync += [waiting.eq(waiting + batches.given - ended), count.eq(Mux(half, counts[1], counts[0]))]
        m.d.comb += engine.count.eq(count)
        with m.If(begin):
            m.d.sync += busy.eq(1)
        with m.If(ended):
            m.d.sync += [busy.eq(0), half.eq(~half)]
        with m.If(self.start):
            m.d.sync += half.eq(0)
        return waiting != 0

    def _record(self, m: Module, image: SampleWriter, records: Fifo, running: Signal, waiting: Value) -> None:
        """New samples through the frozen network; while it runs the next one comes."""
        engine, visits, places = self.engine, self.visits, self.mapping.forward.sample_buffers
        held, arrived = Signal(2), Signal(2)
        into, used, begin = Signal(), Signal(), Signal()
        m.d.comb += [
            engine.image_write.eq(image.write),
            engine.image_address.eq(image.write_address),
            engine.image_copy.eq(image.copy),
            engine.image_value.eq(image.value),
            engine.image_values.eq(image.values),
            image.ready.eq(engine.image_ready),
            image.start.eq(visits.image),
            image.place.eq(into if places == 2 else Const(0, 1)),
            engine.base_image.eq(used if places == 2 else Const(0, 1)),
            records.i.valid.eq(visits.image),
            records.i.payload.eq(visits.record),
            begin.eq((arrived != 0) & ~running & ~waiting),
            engine.base_start.eq(begin),
        ]
        m.d.sync += [
            visits.image_room.eq((held != places) & records.i.ready),
            visits.image_done.eq(image.done),
            self.batches.recorded.eq(engine.record_done),
            held.eq(held + visits.image - engine.base_done),
            arrived.eq(arrived + image.done - begin),
            into.eq(into ^ image.done),
            used.eq(used ^ engine.base_done),
            running.eq((running | begin) & ~engine.base_done),
        ]

    def _load(self, m: Module, loader: Loader, raw: Value) -> None:
        engine, batches = self.engine, self.batches
        m.d.comb += [
            loader.raw.eq(raw),
            loader.start.eq(batches.load),
            loader.count.eq(batches.count),
            loader.address.eq(Mux(batches.half, loader.depth // 2, 0)),
            batches.loading.eq(loader.busy),
            engine.batch_write.eq(loader.write),
            engine.batch_address.eq(loader.write_address),
            engine.batch_word.eq(loader.word),
            engine.label_write.eq(batches.label_write),
            engine.label_address.eq(batches.label_address),
            engine.label.eq(batches.label),
        ]

    def _transfer(self, m: Module, transfer: Transfer, logits: Logits) -> None:
        engine = self.engine
        m.d.comb += [
            engine.load.eq(transfer.kind),
            engine.load_place.eq(transfer.place),
            engine.load_data.eq(transfer.data),
            engine.a_place.eq(transfer.a_place),
            transfer.a_data.eq(engine.a_data),
            logits.address.eq(self.logits),
            transfer.address.eq(Mux(self.command == Command.LOAD, self.parameters, self.adapters)),
        ]

    def _memories(
        self, m: Module, records: Fifo, taken: dict[str, wiring.PureInterface], logits: Logits, transfer: Transfer
    ) -> None:
        """Who asks for what."""
        engine, visits, batches, memories = self.engine, self.visits, self.batches, self.memories
        reads = {
            "order": (visits.order_read, taken["order"]),
            "image": (visits.image_read, taken["image"]),
            "samples": (batches.samples_read, taken["samples"]),
            "records": (batches.records_read, taken["records"]),
            "parameters": (transfer.read, transfer.i),
        }
        for name, (ask, beats) in reads.items():
            wiring.connect(m, ask, getattr(memories, f"{name}_read"))
            wiring.connect(m, getattr(memories, f"{name}_beats"), beats)
        writes = {"logits": (logits.command, logits.o), "parameters": (transfer.write, transfer.o)}
        for name, (ask, beats) in writes.items():
            wiring.connect(m, ask, getattr(memories, f"{name}_write"))
            wiring.connect(m, beats, getattr(memories, f"{name}_data"))
        # a record's command goes when its first beat is there: until then others may write
        given, told = memories.records_write, Signal()
        m.d.comb += [
            given.valid.eq(records.o.valid & engine.record.valid & ~told),
            given.payload.address.eq(records.o.payload),
            given.payload.beats.eq(Mux(engine.raw, self.mapping.raw_beats, self.mapping.record_beats)),
            records.o.ready.eq(given.valid & given.ready),
            batches.written.eq(memories.settled),
        ]
        with m.If(given.valid & given.ready):
            m.d.sync += told.eq(1)
        with m.If(engine.record_done):
            m.d.sync += told.eq(0)
        wiring.connect(m, engine.record, memories.records_data)

    def _commands(self, m: Module, transfer: Transfer, logits: Logits, infer: Value, raw: Value) -> None:
        visits, batches = self.visits, self.batches
        job = (self.command == Command.TUNE) | (self.command == Command.INFER)
        cache = Const(0, 32) if self.store else self.cache
        m.d.comb += [
            *(one.raw.eq(raw) for one in (visits, batches)),
            *(one.infer.eq(infer) for one in (visits, batches)),
            *(one.samples.eq(self.samples) for one in (visits, batches)),
            *(one.cache.eq(cache) for one in (visits, batches)),
            *(one.start.eq(self.start & job) for one in (visits, batches)),
            visits.places_used.eq(self.cache_entries),
            visits.batch_size.eq(self.batch),
            *(getattr(visits, name).eq(getattr(self, name)) for name in ("order", "samples_per_epoch", "epochs")),
            batches.next.eq(visits.next),
            visits.taken.eq(batches.taken),
            batches.new.eq(visits.count),
            batches.goal.eq(visits.goal),
            visits.number.eq(batches.number),
            batches.entry.eq(visits.entry),
            batches.side.eq(visits.side),
            logits.start.eq(self.start),
            visits.forget.eq(self.start & (self.command == Command.FORGET)),
            transfer.frozen.eq(self.start & (self.command == Command.LOAD)),
            transfer.load.eq(self.start & (self.command == Command.LOAD_ADAPTERS)),
            transfer.save.eq(self.start & (self.command == Command.SAVE_ADAPTERS)),
            self.ready.eq(visits.ready),
        ]
        forgetting, moved = Signal(), Signal()
        with m.If(visits.forget):
            m.d.sync += forgetting.eq(1)
        with m.If(transfer.done):
            m.d.sync += moved.eq(1)
        with m.If(self.finished):
            m.d.sync += [forgetting.eq(0), moved.eq(0)]
        m.d.comb += self.finished.eq(visits.ended | (forgetting & visits.ready) | (moved & self.memories.settled))


def monitor(mapping: AdapterMapping) -> dict[str, wiring.Member]:
    """Each beat of the adapters' image that changes, as many at once as are written, and the end of a batch."""
    return {
        "monitor_valid": Out(mapping.words_per_cycle),
        "monitor_beat": Out(16),
        "monitor_data": Out(128 * mapping.words_per_cycle),
        "monitor_done": Out(1),
    }
