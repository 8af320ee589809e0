"""The engine and what feeds it: the memory outside, the order of visits, the threads that follow each other."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..golden.axi_read import AxiReadSpec
from ..golden.axi_write import AxiWriteSpec
from ..golden.plan import Plan
from ..golden.registers import Command, Error
from .axi import Read, Write
from .axi_read import AxiRead
from .axi_write import AxiWrite
from .engine import Engine
from .image import Image
from .loader import Loader
from .logits import Logits
from .queue import Queue
from .transfer import Transfer
from .visits import Sink, Visits

CONFIGURATION = (
    *("parameters", "adapters", "samples", "order", "cache", "logits"),
    *("places", "samples_per_epoch", "epochs", "batch", "rate", "mode"),
)
"""Registers that a command reads."""


class Core(wiring.Component):
    """The core behind its registers, which reset it after an error.

    Attributes
    ----------
    start, command, ready, finished
        Begins a command, when ready; it has ended.
    failed, error, error_address
        It cannot go on; stays so until reset.
    abort, quiet
        Stop what goes to the memory; nothing is on its way there any more.
    reader, writer
        The memory outside.
    batch_done, missed, clipped
        What the registers count: batches, new samples, values clipped in a cycle.
    monitor_...
        Each beat of the adapters' image that changes, and the end of a batch.
    """

    def __init__(self, plan: Plan, batch: int, places: int) -> None:
        self.plan, self.most = plan, batch
        self.engine = Engine(plan, batch)
        self.visits = Visits(plan, batch, places)
        super().__init__(
            {
                **dict.fromkeys(("start", "abort"), In(1)),
                **dict.fromkeys(("ready", "finished", "failed", "quiet", "batch_done", "missed"), Out(1)),
                "command": In(Command),
                "error": Out(4),
                "error_address": Out(32),
                **dict.fromkeys(CONFIGURATION, In(32)),
                "clipped": Out(8),
                "reader": Out(Read()),
                "writer": Out(Write()),
                "monitor_valid": Out(1),
                "monitor_beat": Out(16),
                "monitor_data": Out(128),
                "monitor_done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, visits = self.engine, self.visits
        m.submodules.engine, m.submodules.visits = engine, visits
        m.submodules.read = read = AxiRead(AxiReadSpec())
        m.submodules.write = write = AxiWrite(AxiWriteSpec())
        m.submodules.image = image = Image(self.plan)
        m.submodules.loader = loader = Loader(self.plan, self.most)
        m.submodules.logits = logits = Logits(self.plan)
        m.submodules.transfer = transfer = Transfer(self.plan)
        m.submodules.records = records = Queue(32, 4)
        # short queues, so that nobody's ready depends on another's
        m.submodules.beats = beats = Queue(128, 4)
        m.submodules.commands = commands = Queue(write.command.payload.shape(), 4)
        m.submodules.pixels = pixels = Queue(128, 4)
        wiring.connect(m, commands.o, write.command)
        wiring.connect(m, pixels.o, image.i)
        m.d.comb += [
            write.i.valid.eq(beats.o.valid),
            write.i.payload.data.eq(beats.o.payload),
            beats.o.ready.eq(write.i.ready),
        ]
        settled = Signal()
        m.d.sync += settled.eq(write.idle & commands.empty & beats.empty)
        wiring.connect(m, read.bus, wiring.flipped(self.reader))
        wiring.connect(m, write.bus, wiring.flipped(self.writer))
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
            read.stop.eq(self.abort),
            write.stop.eq(self.abort),
            self.quiet.eq(read.idle & write.idle),
        ]
        computing = self._compute(m, logits, settled)
        recorded = self._record(m, image, records, commands, settled, computing)
        self._load(m, loader, raw)
        self._transfer(m, transfer, logits)
        self._buses(m, read, transfer, pixels, loader)
        # between the first and the last beat of a record nothing else is written
        m.d.comb += beats.i.payload.eq(
            Mux(engine.record.valid, engine.record.payload, Mux(logits.o.valid, logits.o.payload, transfer.o.payload))
        )
        m.d.comb += [
            beats.i.valid.eq(engine.record.valid | logits.o.valid | transfer.o.valid),
            engine.record.ready.eq(beats.i.ready),
            logits.o.ready.eq(beats.i.ready & ~engine.record.valid),
            transfer.o.ready.eq(beats.i.ready & ~engine.record.valid & ~logits.o.valid),
            commands.i.valid.eq(recorded | logits.command.valid | transfer.write.valid),
            logits.command.ready.eq(commands.i.ready & ~recorded),
            transfer.write.ready.eq(commands.i.ready & ~recorded & ~logits.command.valid),
        ]
        given = commands.i.payload
        with m.If(recorded):
            beats = Mux(raw, self.plan.raw_beats, self.plan.record_beats)
            m.d.comb += [given.address.eq(records.o.payload), given.beats.eq(beats)]
        with m.Elif(logits.command.valid):
            m.d.comb += given.eq(logits.command.payload)
        with m.Else():
            m.d.comb += given.eq(transfer.write.payload)
        self._commands(m, transfer, logits, settled, infer)
        self._failures(m, read, write)
        return m

    def _compute(self, m: Module, logits: Logits, settled: Value) -> Value:
        """Batches that are loaded, one after the other; whether there is one."""
        engine, visits = self.engine, self.visits
        waiting, busy, shown = Signal(2), Signal(), Signal()
        half, counts = Signal(), [Signal.like(visits.count, name=f"count{number}") for number in range(2)]
        with m.If(visits.given):
            with m.If(visits.half):
                m.d.sync += counts[1].eq(visits.count)
            with m.Else():
                m.d.sync += counts[0].eq(visits.count)
        begin = Signal()
        ended = Signal()
        m.d.comb += [
            begin.eq((waiting != 0) & ~busy & shown),
            ended.eq(engine.done),
            engine.start.eq(begin),
            engine.half.eq(half),
            self.batch_done.eq(ended),
            self.monitor_done.eq(ended & engine.learn),
        ]
        m.d.sync += [visits.free.eq(waiting != 2), visits.over.eq((waiting == 0) & shown & settled)]
        m.d.sync += shown.eq(logits.empty)
        count = Signal.like(visits.count)
        m.d.sync += [waiting.eq(waiting + visits.given - ended), count.eq(Mux(half, counts[1], counts[0]))]
        m.d.comb += engine.count.eq(count)
        with m.If(begin):
            m.d.sync += busy.eq(1)
        with m.If(ended):
            m.d.sync += [busy.eq(0), half.eq(~half)]
        with m.If(self.start):
            m.d.sync += half.eq(0)
        return (waiting != 0) | ~shown

    def _record(
        self, m: Module, image: Image, records: Queue, commands: Queue, settled: Value, computing: Value
    ) -> Value:
        """New samples through the frozen network; while it runs the next one comes. Whether one begins."""
        engine, visits, places = self.engine, self.visits, self.plan.images
        held, arrived, running = Signal(2), Signal(2), Signal()
        into, used, begin, room = Signal(), Signal(), Signal(), Signal()
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
            visits.written.eq(settled),
            records.i.valid.eq(visits.image),
            records.i.payload.eq(visits.record),
            records.o.ready.eq(begin),
            begin.eq((arrived != 0) & ~running & ~computing & records.o.valid & room),
            engine.base_start.eq(begin),
        ]
        m.d.sync += [
            room.eq(commands.empty),
            visits.image_room.eq(held != places),
            visits.image_done.eq(image.done),
            visits.recorded.eq(engine.record_done),
            held.eq(held + visits.image - engine.base_done),
            arrived.eq(arrived + image.done - begin),
            into.eq(into ^ image.done),
            used.eq(used ^ engine.base_done),
            running.eq((running | begin) & ~engine.base_done),
        ]
        return begin

    def _load(self, m: Module, loader: Loader, raw: Value) -> None:
        engine, visits = self.engine, self.visits
        m.d.comb += [
            loader.raw.eq(raw),
            loader.start.eq(visits.load),
            loader.count.eq(visits.count),
            loader.address.eq(Mux(visits.half, loader.depth // 2, 0)),
            visits.loading.eq(loader.busy),
            engine.batch_write.eq(loader.write),
            engine.batch_address.eq(loader.write_address),
            engine.batch_word.eq(loader.word),
            engine.label_write.eq(visits.label_write),
            engine.label_address.eq(visits.label_address),
            engine.label.eq(visits.label),
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

    def _buses(self, m: Module, read: AxiRead, transfer: Transfer, pixels: Queue, loader: Loader) -> None:
        """Commands and beats of the reader: of visits in a job, of transfer otherwise."""
        visits = self.visits
        moving = transfer.moving
        given = Mux(transfer.read.valid, transfer.read.payload.as_value(), visits.command.payload.as_value())
        m.d.comb += [
            read.command.valid.eq(visits.command.valid | transfer.read.valid),
            read.command.payload.eq(given),
            visits.command.ready.eq(read.command.ready),
            transfer.read.ready.eq(read.command.ready),
        ]
        sinks = {Sink.ORDER: visits.beats, Sink.IMAGE: pixels.i, Sink.BATCH: loader.i}
        for stream in (*sinks.values(), transfer.i):
            m.d.comb += stream.payload.eq(read.o.payload.data)
        m.d.comb += transfer.i.valid.eq(read.o.valid & moving)
        with m.If(moving):
            m.d.comb += read.o.ready.eq(1)
        with m.Else(), m.Switch(visits.sink):
            for sink, stream in sinks.items():
                with m.Case(sink):
                    m.d.comb += [stream.valid.eq(read.o.valid), read.o.ready.eq(stream.ready)]

    def _commands(self, m: Module, transfer: Transfer, logits: Logits, settled: Value, infer: Value) -> None:
        visits = self.visits
        job = (self.command == Command.TUNE) | (self.command == Command.INFER)
        m.d.comb += [
            visits.raw.eq(self.engine.raw),
            visits.infer.eq(infer),
            visits.places_used.eq(self.places),
            visits.batch_size.eq(self.batch),
            *(
                getattr(visits, name).eq(getattr(self, name))
                for name in ("samples", "order", "cache", "samples_per_epoch", "epochs")
            ),
            visits.start.eq(self.start & job),
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
        m.d.comb += self.finished.eq(visits.ended | (forgetting & visits.ready) | (moved & settled))

    def _failures(self, m: Module, read: AxiRead, write: AxiWrite) -> None:
        visits = self.visits
        with m.If(read.error.any()):
            code = Mux(read.error[0], Error.READ_DECERR, Error.READ_SLVERR)
            m.d.comb += [self.failed.eq(1), self.error.eq(code), self.error_address.eq(read.error_address)]
        with m.Elif(write.error.any()):
            code = Mux(write.error[0], Error.WRITE_DECERR, Error.WRITE_SLVERR)
            m.d.comb += [self.failed.eq(1), self.error.eq(code), self.error_address.eq(write.error_address)]
        with m.Elif(visits.failed):
            m.d.comb += [self.failed.eq(1), self.error.eq(visits.error), self.error_address.eq(visits.error_address)]
