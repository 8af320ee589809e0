"""Trainer of adapters: schedulers, memory system and an engine, behind the shell's interface."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT, reach
from ....golden.cores.adapters.registers import RATES, RAW, STOP, WRITE_LOGITS, Command, Error
from ...axi.memory_port import OFFSET_BITS, beat_number, byte_address
from ...axi.read_interleave import ReadInterleave
from ...lora.backward.epoch_loss import EpochLoss
from ...lora.job.batch_scheduler import BatchScheduler
from ...lora.job.early_stop import StopDecision
from ...lora.job.sample_scheduler import SampleScheduler
from ...lora.job_interfaces import JobOptions, JobSettings
from ...primitives.fifo import Fifo
from ..logit_writer import LogitWriter
from ..memory_system import FIFO_DEPTH, MemorySystem, buses
from ..shell import Control
from .adapter_passes import AdapterPasses

WRITES = ("records", "logits", "parameters")
"""Writing requesters, the highest rank first."""
BEATS_AHEAD = 16
"""Missing beats of a sample at which the next sample's read may be issued."""
RECORDS_AHEAD = 4
"""Record addresses in the queue."""


class AdapterTrainer(wiring.Component):
    """Tunes the adapters of a frozen network and infers with them, a command of `Command` at a time.

    A new sample passes the frozen network once and is recorded; without a cache, in each of its batches. A batch with
    complete records is loaded and computed. Recording, the load of a batch and the computation of the previous batch
    overlap.

    Parameters
    ----------
    spec : AdapterCoreSpec
        Batches are read through all AXI4 ports, all else through the first.
    passes : AdapterPasses
        Passes of the engine.

    Attributes
    ----------
    control : In, `Control`
    reader0, writer0, reader1, writer1, ... : Out, `Read` and `Write`
        AXI4 ports to the external memory.
    monitor : Out, `Monitor`
        Updates of the adapters, and work of the parts.
    """

    def __init__(self, spec: Any, passes: AdapterPasses) -> None:
        self.spec, self.passes, self.sizes, self.engine = spec, passes, passes.sizes, passes.engine
        self.unpacker, self.transfer = passes.unpacker, passes.transfer
        sizes, ports, ram_beats = passes.sizes, spec.ports, spec.cache_ram_beats
        self.address = address = reach(spec.address)
        self.cached, self.options = spec.cached_samples > 0, JobOptions(spec.rates, spec.early_stop, spec.validation)
        self.samples = SampleScheduler(
            sizes, spec.batch, spec.cached_samples, Error, ram_beats > 0, address, self.options
        )
        self.batches = BatchScheduler(sizes, spec.batch, address, self.cached, self.options, ports)
        self.logits = LogitWriter(sizes.logit_beats, address)
        # reading requesters, the highest rank first
        records = ("scales", "records") if sizes.loads_apart else ("records",)
        batches = ("samples", *records)
        self.memory = MemorySystem(
            ("order", "new_samples", *batches, "parameters"),
            WRITES,
            Error,
            on_chip=records if ram_beats else (),
            spread=batches if ports > 1 else (),
            # reads through several ports have a FIFO after the interleaver
            buffered=("order", "new_samples", *(() if ports > 1 else ("samples", "records"))),
            ports=ports,
            registered=ports > 1,
            ram_beats=ram_beats,
            address=address,
            bus=spec.address,
        )
        super().__init__(
            {
                "control": In(Control(spec.registers, spec.address)),
                **buses(ports, spec.address),
                "monitor": Out(passes.monitor_of(spec)),
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
        # registers: the command is stable long before their use
        m.d.sync += [
            tune.eq(control.command == Command.TUNE),
            infer.eq(control.command == Command.INFER),
            raw.eq(control.settings.mode[RAW.low] | infer if self.cached else 1),
            engine.show.eq(control.settings.mode[WRITE_LOGITS.low] | infer),
        ]
        m.d.comb += [
            engine.raw.eq(raw),
            control.counts.saturations.eq(engine.clipped),
            control.counts.misses.eq(self.samples.missed),
        ]
        self.passes.show(m, self.monitor)
        if self.options.stops:
            self._losses(m, tune)
        waiting, computing = self._compute(m, tune)
        coming = self._record(m, records, waiting)
        if self.spec.monitor:
            work = self.passes.work(m, computing, coming)
            m.d.comb += self.monitor.busy.eq(Cat(work[name] for name in (*self.spec.turns, *self.spec.beside)))
        self._connect(m, records)
        self._memory(m)
        self._job(m, infer, raw)
        self._commands(m)
        return m

    def _compute(self, m: Module, tune: Value) -> tuple[Value, Value]:
        """Compute loaded batches between new samples; return whether a batch waits and whether a batch runs."""
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

    def _of_half(self, m: Module, half: Value, value: Value, name: str) -> Value:
        """Values of the batches in both halves, in registers with the prefix `name`; returns the half's value."""
        loaded = self.batches.loaded
        registers = [Signal.like(value, name=f"{name}{number}") for number in range(2)]
        with m.If(loaded.valid):
            for number, register in enumerate(registers):
                with m.If(loaded.half == number):
                    m.d.sync += register.eq(value)
        return Mux(half, *reversed(registers))

    def _rate(self, m: Module, half: Value) -> Value:
        """Learning rate of the batch in a half: the setting, or the rate in the schedule."""
        settings = self.control.settings
        if not self.options.rates:
            return Value.cast(settings.rate)
        loaded = self.batches.loaded.options.rate
        rate = Signal.like(loaded)
        m.d.sync += rate.eq(Mux(settings.mode[RATES.low], self._of_half(m, half, loaded, "rate"), settings.rate))
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
        """Pass new samples through the frozen network unless a batch waits; return whether a sample arrives.

        The next sample arrives during the passes. Its read is issued shortly before the previous sample is complete:
        otherwise the waiting beats would block other reads.
        """
        engine, new = self.engine, self.samples.new_sample
        m.d.comb += [
            engine.hold.eq(waiting),
            engine.sample.start.eq(new.start),
            records.i.valid.eq(new.start),
            records.i.payload.eq(beat_number(new.record)),
        ]
        # missing beats of the arriving sample
        coming, missing = Signal(), Signal(range(self.sizes.sample_beats + 1))
        m.d.sync += [
            coming.eq((coming | new.start) & ~engine.sample.done),
            missing.eq(missing - (engine.sample.beats.valid & engine.sample.beats.ready)),
            new.near.eq(engine.sample.room & (missing <= BEATS_AHEAD)),
            new.ready.eq(engine.sample.room & records.i.ready & ~coming & ~new.start),
            self.batches.recorded.eq(engine.record_done),
        ]
        with m.If(new.start):
            m.d.sync += missing.eq(self.sizes.sample_beats)
        return coming

    def _connect(self, m: Module, records: Fifo) -> None:
        """Connect the engine's inputs and results; a record's write command is issued with its first beat."""
        engine = self.engine
        wiring.connect(m, self.samples.batch, self.batches.batch)
        wiring.connect(m, self.batches.load, self.unpacker.load)
        wiring.connect(m, engine.logits, self.logits.i)
        wiring.connect(m, self.batches.label, engine.labels)
        self.passes.connect(m)
        # other requesters may write until a record's first beat is valid
        port, announced = self.memory.records_write, Signal()
        m.d.comb += [
            port.command.valid.eq(records.o.valid & engine.record.valid & ~announced & ~self.batches.settling),
            port.command.payload.address.eq(byte_address(records.o.payload)),
            port.command.payload.beats.eq(Mux(engine.raw, self.sizes.raw_beats, self.sizes.record_beats)),
            records.o.ready.eq(port.command.valid & port.command.ready),
            self.batches.settled.eq(self.memory.settled),
        ]
        with m.If(port.command.valid & port.command.ready):
            m.d.sync += announced.eq(1)
        with m.If(engine.record_done):
            m.d.sync += announced.eq(0)
        wiring.connect(m, engine.record, port.beats)

    def _memory(self, m: Module) -> None:
        memory, control = self.memory, self.control
        for bus in buses(self.spec.ports, self.address):
            wiring.connect(m, getattr(memory, bus), wiring.flipped(getattr(self, bus)))
        wiring.connect(m, self.samples.order_read, memory.order_read)
        wiring.connect(m, self.transfer.read, memory.parameters_read)
        wiring.connect(m, self.transfer.write, memory.parameters_write)
        wiring.connect(m, self.logits.write, memory.logits_write)
        wiring.connect(m, self.samples.sample_command, memory.new_samples_read.command)
        wiring.connect(m, memory.new_samples_read.beats, self.engine.sample.beats)
        wiring.connect(m, self.batches.sample_command, self._batch_read(m, "samples", self.unpacker.samples))
        wiring.connect(m, self.batches.record_command, self._batch_read(m, "records", self.unpacker.records))
        if self.sizes.loads_apart:
            wiring.connect(m, self.batches.scale_command, self._batch_read(m, "scales", self.unpacker.scales, False))
        m.d.comb += [memory.stop.eq(control.abort), memory.hold.eq(control.hold), control.quiet.eq(memory.quiet)]
        m.d.comb += [
            control.fault.failed.eq(memory.fault.failed | self.samples.fault.failed),
            control.fault.error.eq(Mux(memory.fault.failed, memory.fault.error, self.samples.fault.error)),
            control.fault.address.eq(Mux(memory.fault.failed, memory.fault.address, self.samples.fault.address)),
        ]

    def _batch_read(self, m: Module, name: str, beats: stream.Interface, buffered: bool = True) -> stream.Interface:
        """Connect the beats of a requester, with several ports in command order; return its stream of commands."""
        memory, sizes, ports = self.memory, self.sizes, self.spec.ports
        first: wiring.PureInterface = getattr(memory, f"{name}_read")
        if ports == 1:
            wiring.connect(m, first.beats, beats)
            return first.command
        # a record's read has values, scales or codes
        records = max(sizes.raw_beats, sizes.code_beats, sizes.scale_beats)
        most = {"samples": sizes.sample_beats, "records": records, "scales": sizes.scale_beats}[name]
        m.submodules[f"{name}_interleave"] = both = ReadInterleave(ports, self.address, most, direct=True)
        m.d.comb += both.port.eq(self.batches.port)
        for port in range(ports):
            wiring.connect(m, getattr(both, f"port{port}"), getattr(memory, f"{name}_read{port or ''}"))
        if buffered:
            m.submodules[f"{name}_beats"] = fifo = Fifo(8 * BEAT, FIFO_DEPTH)
            wiring.connect(m, both.read.beats, fifo.i)
            wiring.connect(m, fifo.o, beats)
        else:
            wiring.connect(m, both.read.beats, beats)
        return both.read.command

    def _job(self, m: Module, infer: Value, raw: Value) -> None:
        control, settings = self.control, self.control.settings
        job = JobSettings(self.spec.batch, self.address, self.options).create()
        if self.options.stops:
            m.d.comb += job.options.stop.eq(settings.mode[STOP.low] & ~infer)
        if self.options.rates:
            m.d.comb += job.options.rates.eq(settings.mode[RATES.low] & ~infer)
        if self.options.validates:
            m.d.comb += job.options.validation_samples.eq(Mux(infer, 0, settings.validation_samples))
        m.d.comb += [
            job.start.eq(control.start & ((control.command == Command.TUNE) | (control.command == Command.INFER))),
            job.infer.eq(infer),
            job.raw.eq(raw),
            job.cache.eq(0 if self.spec.cache_ram_beats else settings.cache),
            job.batch.eq(settings.batch),
        ]
        for name in ("samples", "order", "cache_entries", "samples_per_epoch", "epochs"):
            m.d.comb += getattr(job, name).eq(getattr(settings, name))
        wiring.connect(m, job, self.samples.job, self.batches.job)

    def _commands(self, m: Module) -> None:
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
