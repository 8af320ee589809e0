"""Adapter trainer: the engine, the schedulers that feed it, and the memory system, behind the shell's interface."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS, BEAT, reach
from ....golden.cores.instantft.registers import REGISTERS, Command, Error
from ....golden.cores.shell import CoreRegisters
from ....golden.lora.mapping import AdapterMapping
from ....golden.rng.urng import UrngSpec
from ...axi.memory_port import OFFSET_BITS, beat_number, byte_address
from ...axi.read_interleave import ReadInterleave
from ...lora.backward.epoch_loss import EpochLoss
from ...lora.engine import AdapterEngine
from ...lora.job.batch_scheduler import BatchScheduler
from ...lora.job.batch_unpacker import BatchUnpacker
from ...lora.job.early_stop import StopDecision
from ...lora.job.parameter_transfer import ParameterTransfer
from ...lora.job.sample_scheduler import SampleScheduler
from ...lora.job_interfaces import PLAIN, JobOptions, JobSettings
from ...primitives.fifo import Fifo
from ..logit_writer import LogitWriter
from ..memory_system import FIFO_DEPTH, MemorySystem, buses
from ..shell import Control
from ..shelled_core import Monitor

WRITES = ("records", "logits", "parameters")
"""Requesters that write, the highest rank first."""
RATES, STOP = (REGISTERS["mode"].field(name).low for name in ("rates", "stop"))
"""Bits of `mode`."""
BEATS_AHEAD = 16
"""Beats of a sample that are still to be taken as the next one is asked for."""
RECORDS_AHEAD = 4
"""Record addresses that wait for their records."""


class AdapterTrainer(wiring.Component):
    """Tunes the adapters of a frozen network and infers with them, a command of `Command` at a time.

    A new sample runs through the frozen network once and is recorded, or, without a cache, in each of its batches;
    batches whose samples are all recorded are loaded and computed. Recording, loading a batch and computing the one
    before overlap.

    Parameters
    ----------
    registers : CoreRegisters
        The core's.
    mapping : AdapterMapping
    batch, cache_entries : int
        Most samples of a batch, of the cache; 0 entries: there is none, and records are in Q8.16.
    ports : int
        AXI4 ports to the memory outside: batches are read through all of them, all else through the first one.
    ram_beats : int
        Beats of the cache RAM on the chip; 0 where the cache is outside.
    address : int
        Bits of a byte address.
    options : JobOptions
        Rates of batches, an early end, validation.
    urng : UrngSpec, optional
        Generator of the random numbers with which updates are rounded.
    parts : sequence of str
        Names of the parts whose work the monitor shows, of those in `_work`.

    Attributes
    ----------
    control : In, `Control`
        The shell. Counters: batches computed, new samples, values saturated.
    reader0, writer0, reader1, writer1, ... : Out, `Read` and `Write`
        AXI4 ports to the memory outside.
    monitor : Out, `Monitor`
        Updates of the adapters, and work of the parts.
    """

    def __init__(
        self,
        registers: CoreRegisters,
        mapping: AdapterMapping,
        batch: int,
        cache_entries: int,
        ports: int = 1,
        ram_beats: int = 0,
        address: int = ADDRESS_BITS,
        options: JobOptions = PLAIN,
        urng: UrngSpec | None = None,
        parts: Sequence[str] = (),
    ) -> None:
        self.parts = parts
        self.mapping, self.most, self.ports, self.ram_beats = mapping, batch, ports, ram_beats
        bus, address = address, reach(address)
        self.address = address
        self.cached, self.options = cache_entries > 0, options
        self.engine = AdapterEngine(mapping, batch, urng, options.stops)
        self.samples = SampleScheduler(mapping, batch, cache_entries, Error, ram_beats > 0, address, options)
        self.batches = BatchScheduler(mapping, batch, address, self.cached, options, ports)
        self.unpacker = BatchUnpacker(mapping, batch)
        self.logits = LogitWriter(mapping.logit_beats, address)
        self.transfer = ParameterTransfer(mapping, address)
        # requesters that read, the highest rank first
        records = ("scales", "records") if mapping.loads_apart else ("records",)
        batches = ("samples", *records)
        self.memory = MemorySystem(
            ("order", "new_samples", *batches, "parameters"),
            WRITES,
            Error,
            on_chip=records if ram_beats else (),
            spread=batches if ports > 1 else (),
            # what comes through several ports has its FIFO behind them
            buffered=("order", "new_samples", *(() if ports > 1 else ("samples", "records"))),
            ports=ports,
            registered=ports > 1,
            ram_beats=ram_beats,
            address=address,
            bus=bus,
        )
        super().__init__(
            {
                "control": In(Control(registers, bus)),
                **buses(ports, bus),
                "monitor": Out(Monitor(mapping.words_per_cycle, parts=len(parts))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        engine, control, memory = self.engine, self.control, self.memory
        m.submodules.engine, m.submodules.samples, m.submodules.batches = engine, self.samples, self.batches
        m.submodules.unpacker, m.submodules.logits = self.unpacker, self.logits
        m.submodules.transfer, m.submodules.memory = self.transfer, memory
        m.submodules.records = records = Fifo(self.address - OFFSET_BITS, RECORDS_AHEAD)
        raw, tune, infer = Signal(), Signal(), Signal()
        # registered: the command is stable long before they are used
        m.d.sync += [
            tune.eq(control.command == Command.TUNE),
            infer.eq(control.command == Command.INFER),
            raw.eq(control.settings.mode[0] | infer if self.cached else 1),
            engine.show.eq(control.settings.mode[1] | infer),
        ]
        m.d.comb += [
            engine.raw.eq(raw),
            control.counts.saturations.eq(engine.clipped),
            control.counts.misses.eq(self.samples.missed),
            self.monitor.valid.eq(engine.updates.write),
            self.monitor.beat.eq(engine.updates.address),
            self.monitor.data.eq(engine.updates.beats),
        ]
        if self.options.stops:
            self._losses(m, tune)
        waiting, computing = self._compute(m, tune)
        coming = self._record(m, records, waiting)
        if self.parts:
            work = self._work(m, computing, coming)
            m.d.comb += self.monitor.busy.eq(Cat(work[name] for name in self.parts))
        self._connect(m, records)
        self._memory(m)
        self._job(m, infer, raw)
        self._commands(m)
        return m

    def _compute(self, m: Module, tune: Value) -> tuple[Value, Value]:
        """Compute loaded batches one after the other, between new samples; whether one waits, and is computed."""
        engine, run, loaded = self.engine, self.engine.batch, self.batches.loaded
        batches_waiting, busy, show_done = Signal(2), Signal(), Signal()
        begin, half = Signal(), Signal()
        m.d.comb += [
            begin.eq((batches_waiting != 0) & ~busy & show_done & ~engine.running),
            run.start.eq(begin),
            run.half.eq(half),
            self.control.counts.batches.eq(run.done),
            self.monitor.done.eq(run.done & tune),
        ]
        batches_done = (batches_waiting == 0) & show_done & self.memory.settled & self.batches.idle
        m.d.sync += [
            self.batches.labels_done.eq(run.labels_done),
            self.batches.computed.eq(run.done),
            self.samples.over.eq(batches_done),
            show_done.eq(self.logits.empty),
        ]
        count = Signal.like(loaded.count)
        m.d.sync += [
            batches_waiting.eq(batches_waiting + loaded.valid - run.done),
            count.eq(self._of_half(m, half, loaded.count, "count")),
        ]
        m.d.comb += [run.count.eq(count), run.rate.eq(self._rate(m, half)), run.learn.eq(tune)]
        if self.options.validates:
            m.d.comb += run.learn.eq(tune & self._of_half(m, half, loaded.options.learn, "learn"))
        with m.If(begin):
            m.d.sync += busy.eq(1)
        with m.If(run.done):
            m.d.sync += [busy.eq(0), half.eq(~half)]
        with m.If(self.control.start):
            m.d.sync += half.eq(0)
        return batches_waiting != 0, busy

    def _work(self, m: Module, computing: Value, coming: Value) -> dict[str, Value]:
        """Tell which parts are at work, by name; the array does the work of one at most.

        words, pauses
            A new sample runs: a word of the frozen network goes into the array, or none does.
        forward, head
            Of a batch: a row of the adapters goes into the array, or the gradients at their hidden values are awaited.
        backward, update
            Behind them: a row goes into the array, or none while gradients leave and parameters are updated.
        gradients
            Updated parameters are written.
        record
            Outputs of a new sample are still to be packed.
        sample
            A new sample comes in.
        load
            The unpacker takes a beat of a sample, of a record, or of each.
        unpack
            Words are written to the batch memory.
        """
        engine, run, rows = self.engine, self.engine.batch, self.engine.backward.sequencer
        # the batch's gradients at the hidden values are known
        known = Signal()
        with m.If(run.labels_done):
            m.d.sync += known.eq(1)
        with m.If(run.done):
            m.d.sync += known.eq(0)
        word, row = engine.forward.array.port.enable, rows.enable | rows.base
        beats = [self.unpacker.samples, self.unpacker.records]
        beats += [self.unpacker.scales] if self.mapping.loads_apart else []
        return {
            "words": engine.running & word,
            "pauses": engine.running & ~word,
            "forward": computing & ~known & row,
            "head": computing & ~known & ~row,
            "backward": computing & known & row,
            "update": computing & known & ~row,
            "gradients": engine.updates.write.any(),
            "record": engine.forward.outputs.full.any(),
            "sample": coming,
            "load": Cat(one.valid & one.ready for one in beats).any(),
            "unpack": self.unpacker.rows.enable.any(),
        }

    def _of_half(self, m: Module, half: Value, value: Value, name: str) -> Value:
        """Keep `value`, a member of loaded batches, for the batch in each half; `name` is its registers' prefix."""
        loaded = self.batches.loaded
        registers = [Signal.like(value, name=f"{name}{number}") for number in range(2)]
        with m.If(loaded.valid):
            for number, register in enumerate(registers):
                with m.If(loaded.half == number):
                    m.d.sync += register.eq(value)
        return Mux(half, *reversed(registers))

    def _rate(self, m: Module, half: Value) -> Value:
        """Learning rate of the batch in a half: the setting, or the batch's own."""
        settings = self.control.settings
        if not self.options.rates:
            return Value.cast(settings.rate)
        loaded = self.batches.loaded.options.rate
        rate = Signal.like(loaded)
        m.d.sync += rate.eq(Mux(settings.mode[RATES], self._of_half(m, half, loaded, "rate"), settings.rate))
        return rate

    def _losses(self, m: Module, tune: Value) -> None:
        """Sum the loss of each epoch of a tuning, and of its validation."""
        control, settings, watch = self.control, self.control.settings, self.engine.gradient
        m.submodules.losses = losses = EpochLoss(validates=self.options.validates)
        m.submodules.early_stop = stop = StopDecision(self.options.validates)
        m.d.comb += [
            losses.start.eq(control.start),
            losses.samples.eq(settings.samples_per_epoch),
            stop.loss.eq(losses.loss),
            stop.limit.eq(settings.stop_loss),
            losses.gradients.valid.eq(watch.valid & tune),
            losses.gradients.gradient.eq(watch.gradient),
            losses.gradients.last.eq(watch.last),
            control.counts.epoch_loss.eq(losses.step),
            self.samples.low.eq(stop.low),
        ]
        if self.options.validates:
            m.d.comb += [
                losses.validation.samples.eq(settings.validation_samples),
                stop.patience.start.eq(control.start),
                stop.patience.complete.eq(losses.complete),
                stop.patience.losses.eq(settings.patience),
                control.counts.validation_loss.eq(losses.validation.step),
                control.counts.correct.eq(losses.validation.correct_step),
            ]

    def _record(self, m: Module, records: Fifo, waiting: Value) -> Value:
        """Run new samples through the frozen network, unless a batch waits; while one runs the next one comes in.

        It is asked for a little before the one before has arrived: its beats are not to wait in front of others.
        """
        engine, new = self.engine, self.samples.new_sample
        m.d.comb += [
            engine.hold.eq(waiting),
            engine.sample.start.eq(new.start),
            records.i.valid.eq(new.start),
            records.i.payload.eq(beat_number(new.record)),
        ]
        # beats of the sample that comes in, which are still to be taken
        coming, left = Signal(), Signal(range(self.mapping.forward.sample_beats + 1))
        m.d.sync += [
            coming.eq((coming | new.start) & ~engine.sample.done),
            left.eq(left - (engine.sample.beats.valid & engine.sample.beats.ready)),
            new.near.eq(engine.sample.room & (left <= BEATS_AHEAD)),
            new.ready.eq(engine.sample.room & records.i.ready & ~coming & ~new.start),
            self.batches.recorded.eq(engine.record_done),
        ]
        with m.If(new.start):
            m.d.sync += left.eq(self.mapping.forward.sample_beats)
        return coming

    def _connect(self, m: Module, records: Fifo) -> None:
        """The engine's memories and results; a record's write command goes out with its first beat."""
        engine = self.engine
        wiring.connect(m, self.samples.batch, self.batches.batch)
        wiring.connect(m, self.batches.load, self.unpacker.load)
        wiring.connect(m, engine.logits, self.logits.i)
        wiring.connect(m, self.unpacker.rows, engine.rows)
        wiring.connect(m, self.batches.label, engine.labels)
        wiring.connect(m, self.transfer.parameters, engine.parameters)
        wiring.connect(m, self.transfer.adapters, engine.saved)
        # until a record's first beat is there, others may write
        port, announced = self.memory.records_write, Signal()
        m.d.comb += [
            port.command.valid.eq(records.o.valid & engine.record.valid & ~announced & ~self.batches.settling),
            port.command.payload.address.eq(byte_address(records.o.payload)),
            port.command.payload.beats.eq(Mux(engine.raw, self.mapping.raw_beats, self.mapping.record_beats)),
            records.o.ready.eq(port.command.valid & port.command.ready),
            self.batches.settled.eq(self.memory.settled),
        ]
        with m.If(port.command.valid & port.command.ready):
            m.d.sync += announced.eq(1)
        with m.If(engine.record_done):
            m.d.sync += announced.eq(0)
        wiring.connect(m, engine.record, port.beats)

    def _memory(self, m: Module) -> None:
        """Connect the requesters and the buses."""
        memory, control = self.memory, self.control
        for bus in buses(self.ports, self.address):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, self.samples.order_read, memory.order_read)
        wiring.connect(m, self.transfer.read, memory.parameters_read)
        wiring.connect(m, self.transfer.write, memory.parameters_write)
        wiring.connect(m, self.logits.write, memory.logits_write)
        wiring.connect(m, self.samples.sample_command, memory.new_samples_read.command)
        wiring.connect(m, memory.new_samples_read.beats, self.engine.sample.beats)
        wiring.connect(m, self.batches.sample_command, self._batch_read(m, "samples", self.unpacker.samples))
        wiring.connect(m, self.batches.record_command, self._batch_read(m, "records", self.unpacker.records))
        if self.mapping.loads_apart:
            wiring.connect(m, self.batches.scale_command, self._batch_read(m, "scales", self.unpacker.scales, False))
        m.d.comb += [memory.stop.eq(control.abort), memory.hold.eq(control.hold), control.quiet.eq(memory.quiet)]
        m.d.comb += [
            control.fault.failed.eq(memory.fault.failed | self.samples.fault.failed),
            control.fault.error.eq(Mux(memory.fault.failed, memory.fault.error, self.samples.fault.error)),
            control.fault.address.eq(Mux(memory.fault.failed, memory.fault.address, self.samples.fault.address)),
        ]

    def _batch_read(self, m: Module, name: str, beats: stream.Interface, buffered: bool = True) -> stream.Interface:
        """Give the beats that a requester reads, of several ports in the order of its commands, which are returned."""
        memory, mapping = self.memory, self.mapping
        first: wiring.PureInterface = getattr(memory, f"{name}_read")
        if self.ports == 1:
            wiring.connect(m, first.beats, beats)
            return first.command
        # of raw records, values; of others their scales or their codes
        records = max(mapping.raw_beats, mapping.code_beats, mapping.scale_beats)
        most = {"samples": mapping.forward.sample_beats, "records": records, "scales": mapping.scale_beats}[name]
        m.submodules[f"{name}_interleave"] = both = ReadInterleave(self.ports, self.address, most, direct=True)
        m.d.comb += both.port.eq(self.batches.port)
        for port in range(self.ports):
            wiring.connect(m, getattr(both, f"port{port}"), getattr(memory, f"{name}_read{port or ''}"))
        if buffered:
            m.submodules[f"{name}_beats"] = fifo = Fifo(8 * BEAT, FIFO_DEPTH)
            wiring.connect(m, both.read.beats, fifo.i)
            wiring.connect(m, fifo.o, beats)
        else:
            wiring.connect(m, both.read.beats, beats)
        return both.read.command

    def _job(self, m: Module, infer: Value, raw: Value) -> None:
        """Give the job to the schedulers."""
        control, settings = self.control, self.control.settings
        job = JobSettings(self.most, self.address, self.options).create()
        if self.options.stops:
            m.d.comb += job.options.stop.eq(settings.mode[STOP] & ~infer)
        if self.options.rates:
            m.d.comb += job.options.rates.eq(settings.mode[RATES] & ~infer)
        if self.options.validates:
            m.d.comb += job.options.validation_samples.eq(Mux(infer, 0, settings.validation_samples))
        m.d.comb += [
            job.start.eq(control.start & ((control.command == Command.TUNE) | (control.command == Command.INFER))),
            job.infer.eq(infer),
            job.raw.eq(raw),
            job.cache.eq(0 if self.ram_beats else settings.cache),
            job.batch.eq(settings.batch),
        ]
        for name in ("samples", "order", "cache_entries", "samples_per_epoch", "epochs"):
            m.d.comb += getattr(job, name).eq(getattr(settings, name))
        wiring.connect(m, job, self.samples.job, self.batches.job)

    def _commands(self, m: Module) -> None:
        """Start each command where it belongs, and see its end."""
        control, settings, samples, transfer = self.control, self.control.settings, self.samples, self.transfer
        begins = {
            Command.FORGET: samples.forget,
            Command.LOAD: transfer.load_frozen,
            Command.LOAD_ADAPTERS: transfer.load_adapters,
            Command.SAVE_ADAPTERS: transfer.save_adapters,
        }
        m.d.comb += [begin.eq(control.start & (control.command == command)) for command, begin in begins.items()]
        m.d.comb += [
            self.logits.start.eq(control.start),
            self.logits.address.eq(settings.logits),
            transfer.clearing.eq(self.engine.clearing),
            transfer.address.eq(Mux(control.command == Command.LOAD, settings.parameters, settings.adapters)),
            control.ready.eq(samples.ready),
        ]
        forgetting, moved = Signal(), Signal()
        with m.If(samples.forget):
            m.d.sync += forgetting.eq(1)
        with m.If(transfer.done):
            m.d.sync += moved.eq(1)
        with m.If(control.finished):
            m.d.sync += [forgetting.eq(0), moved.eq(0)]
        m.d.comb += control.finished.eq(samples.ended | (forgetting & samples.ready) | (moved & self.memory.settled))
