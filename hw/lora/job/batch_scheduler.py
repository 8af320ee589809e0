"""Batch scheduler: loads a batch once all of its samples are in the cache: labels, samples, records."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.lora.mapping import AdapterMapping
from ...axi.bursts import command
from ...axi.memory_port import OFFSET_BITS, beat_number, byte_address
from ...nn.sample_writer import WORDS_PER_BEAT
from ...primitives.address_generator import AddressGenerator
from ..job_interfaces import (
    COUNTED,
    PLAIN,
    BatchDescriptor,
    BatchLoad,
    JobOptions,
    JobSettings,
    LabelWrite,
    LoadedBatch,
)


class BatchScheduler(wiring.Component):
    """Loads batches into the halves of the batch memory in turn, one ahead of the batch that is computed.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    address : int
        Bits of a byte address.
    cached : bool
        There is a cache; else all jobs go past it, as inferences do.
    options : JobOptions

    Attributes
    ----------
    job : In, `JobSettings`
        The job; of it `start`, `infer`, `raw`, `samples` and `cache` are used.
    batch : In, `BatchDescriptor`
        Batches that were looked through.
    recorded : In(1)
        A new sample's record is complete; one cycle each.
    settled : In(1)
        All beats that were given to be written have arrived in the memory.
    settling : Out(1)
        A batch waits for `settled`: no further record is to begin to be written.
    free : In(1)
        A half of the batch memory is free.
    sample_command, record_command : Out streams of `command`
        Reads of the batch's samples and records, entry by entry; of an NF4 record first the scales, then the codes.
        Samples are read only where an adapter takes the network's input.
    load : Out, `BatchLoad`
        The unpacking of the batch.
    label : Out, `LabelWrite`
        Labels, each written when its half's batch before is done with its own.
    loaded : Out, `LoadedBatch`
        A batch is loaded.
    idle : Out(1)
        No batch is being loaded.
    """

    def __init__(
        self,
        mapping: AdapterMapping,
        batch: int,
        address: int = ADDRESS_BITS,
        cached: bool = True,
        options: JobOptions = PLAIN,
    ) -> None:
        self.mapping, self.most, self._address, self.cached = mapping, batch, address, cached
        super().__init__(
            {
                "job": In(JobSettings(batch, address, options)),
                "batch": In(BatchDescriptor(batch, options)),
                **dict.fromkeys(("recorded", "settled", "free"), In(1)),
                "sample_command": Out(command(address)),
                "record_command": Out(command(address)),
                "load": Out(BatchLoad(batch)),
                "label": Out(LabelWrite(batch)),
                "loaded": Out(LoadedBatch(batch, options)),
                **dict.fromkeys(("settling", "idle"), Out(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        batch, load, number, half = self.batch, self.load, self.batch.number, self.load.half
        m.submodules.address_generator = address = AddressGenerator(self._address - OFFSET_BITS)
        goal, recorded, missing = Signal(COUNTED), Signal(COUNTED), Signal(COUNTED)
        m.d.sync += [recorded.eq(recorded + self.recorded), missing.eq(goal - recorded)]
        m.d.comb += [
            load.raw.eq(self.job.raw),
            self.loaded.half.eq(half),
            self.loaded.count.eq(load.count),
            self.label.address.eq(number + Mux(half, self.most, 0)),
            self.sample_command.payload.address.eq(byte_address(address.address)),
            self.sample_command.payload.beats.eq(self.mapping.forward.sample_beats),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.idle.eq(1), batch.ready.eq(1)]
                m.d.sync += number.eq(0)
                with m.If(self.job.start):
                    m.d.sync += half.eq(0)
                with m.If(batch.valid):
                    m.d.sync += [load.count.eq(batch.count), goal.eq(batch.goal)]
                    for name in batch.options.signature.members:
                        m.d.sync += getattr(self.loaded.options, name).eq(getattr(batch.options, name))
                    m.next = "COMPARE"
            # new samples are in the cache before they are read
            with m.State("COMPARE"):
                m.next = "COMPLETE"
            with m.State("COMPLETE"), m.If((missing == 0) | missing[-1]):
                m.next = "SETTLE"
            with m.State("SETTLE"):
                # where one record follows the other, the memory would never settle
                m.d.comb += self.settling.eq(self.free)
                with m.If(self.settled & self.free):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += load.start.eq(1)
                m.next = "SELECT"
            self._entry(m, address)
            with m.State("LOADED"), m.If(~load.busy):
                m.d.comb += self.loaded.valid.eq(1)
                m.d.sync += half.eq(~half)
                m.next = "AFTER"
            # `idle` stays low until `loaded` is counted
            with m.State("AFTER"):
                m.next = "REST"
            with m.State("REST"):
                m.next = "IDLE"
        return m

    def _entry(self, m: Module, address: AddressGenerator) -> None:
        """Read an entry: its sample, its record's scales, its record's codes or words."""
        mapping, job, batch, number = self.mapping, self.job, self.batch, self.batch.number
        # outputs of stages that no adapter takes are not read
        skipped = sum(len(words) for words in mapping.record_words[: mapping.first_record])
        codes = mapping.code_beats - skipped
        skipped_raw = skipped * mapping.lanes // WORDS_PER_BEAT
        scales, values = (Signal.like(address.address, name=name) for name in ("scales", "values"))
        m.d.comb += [
            scales.eq(address.address + mapping.code_beats),
            values.eq(address.address + Mux(job.raw, skipped_raw, skipped)),
        ]
        record, read = Signal(24, reset_less=True), self.record_command
        with m.State("SELECT"):
            m.next = "ENTRY"
        with m.State("ENTRY"):
            slot = number + Mux(batch.side, self.most, 0)
            m.d.sync += [
                record.eq(Mux(job.infer, slot, batch.entry.index) if self.cached else slot),
                self.label.label.eq(batch.entry.label),
            ]
            m.d.comb += [
                address.index.eq(batch.entry.index),
                address.stride.eq(mapping.forward.sample_beats),
                address.base.eq(beat_number(job.samples)),
                address.start.eq(mapping.takes_sample),
            ]
            m.next = "SAMPLE" if mapping.takes_sample else "RECORD"
        if mapping.takes_sample:
            with m.State("SAMPLE"):
                m.d.comb += self.sample_command.valid.eq(address.done)
                with m.If(address.done & self.sample_command.ready):
                    m.next = "RECORD"
        with m.State("RECORD"):
            # only now is this half's batch before done with its labels
            m.d.comb += [
                self.label.enable.eq(1),
                address.index.eq(record),
                address.stride.eq(Mux(job.raw, mapping.raw_beats, mapping.record_beats)),
                address.base.eq(beat_number(job.cache)),
                address.start.eq(1),
            ]
            m.next = "SCALES"
        with m.State("SCALES"):
            m.d.comb += [
                read.payload.address.eq(byte_address(scales)),
                read.payload.beats.eq(mapping.scale_beats),
                read.valid.eq(address.done & ~job.raw),
            ]
            with m.If(address.done & (read.ready | job.raw)):
                m.next = "CODES"
        with m.State("CODES"):
            m.d.comb += [
                read.payload.address.eq(byte_address(values)),
                read.payload.beats.eq(Mux(job.raw, mapping.raw_beats - skipped_raw, codes)),
                read.valid.eq(1),
            ]
            with m.If(read.ready):
                m.d.sync += number.eq(number + 1)
                m.next = "SELECT"
                with m.If(number == self.load.count - 1):
                    m.next = "LOADED"
