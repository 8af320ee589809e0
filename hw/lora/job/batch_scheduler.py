"""Batch scheduler: loads labels, samples and records of a batch once all of its records are written.

The reads of a batch are issued during the unpacking of the previous batch: only the first batch sees the memory's
latency.
"""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.lora.record_sizes import RecordSizes
from ...axi.bursts import command
from ...axi.memory_port import OFFSET_BITS, beat_number, byte_address
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
    """Loads batches into alternate halves of the batch memory, one ahead of the running batch.

    Parameters
    ----------
    sizes : RecordSizes
    batch : int
        Most samples of a batch.
    address : int
        Bits of a byte address.
    cached : bool
        The core has a cache; else all jobs use the scratch, as inferences do.
    options : JobOptions
    ports : int
        Ports for reads of batches.

    Attributes
    ----------
    job : In, `JobSettings`
        Uses `start`, `infer`, `raw`, `samples` and `cache`.
    batch : In, `BatchDescriptor`
    recorded : In(1)
        A new sample's record is complete; one cycle each.
    settled : In(1)
        All accepted write beats have arrived in the memory.
    settling : Out(1)
        A batch waits for `settled`: the write of a further record must not begin.
    labels_done : In(1)
        The running batch's labels may be overwritten; one cycle, at `computed` or before.
    computed : In(1)
        End of a batch: its half of the batch memory is free; one cycle each.
    sample_command, record_command : Out streams of `command`
        Reads of the batch's samples and records, entry by entry; of an NF4 record first the scales, then the codes.
        Samples only with `RecordSizes.takes_sample`.
    scale_command : Out stream of `command`, with `RecordSizes.loads_apart`
        Reads of scales.
    port : Out, with `ports` above 1
        Port of the offered read. Ports alternate by entry; a record and the next entry's sample share a port: a batch's
        first record does not wait for a sample.
    load : Out, `BatchLoad`
    label : Out, `LabelWrite`
        A label is written after the end of the half's previous batch.
    loaded : Out, `LoadedBatch`
    idle : Out(1)
        No batch is being loaded.
    """

    def __init__(
        self,
        sizes: RecordSizes,
        batch: int,
        address: int = ADDRESS_BITS,
        cached: bool = True,
        options: JobOptions = PLAIN,
        ports: int = 1,
    ) -> None:
        self.sizes, self.most, self._address, self.cached = sizes, batch, address, cached
        self._ports = ports
        super().__init__(
            {
                "job": In(JobSettings(batch, address, options)),
                "batch": In(BatchDescriptor(batch, options)),
                **dict.fromkeys(("recorded", "settled", "labels_done", "computed"), In(1)),
                "sample_command": Out(command(address)),
                "record_command": Out(command(address)),
                **({"scale_command": Out(command(address))} if sizes.loads_apart else {}),
                **({"port": Out(range(ports))} if ports > 1 else {}),
                "load": Out(BatchLoad(batch)),
                "label": Out(LabelWrite(batch)),
                "loaded": Out(LoadedBatch(batch, options)),
                **dict.fromkeys(("settling", "idle"), Out(1)),
            }
        )
        # of the last batch taken
        self._count = Signal.like(self.batch.count)
        names = self.batch.options.signature.members
        self._options = {name: Signal.like(getattr(self.batch.options, name), name=f"own_{name}") for name in names}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        batch, load, number, half = self.batch, self.load, self.batch.number, Signal()
        m.submodules.address_generator = address = AddressGenerator(self._address - OFFSET_BITS)
        goal, recorded, missing = Signal(COUNTED), Signal(COUNTED), Signal(COUNTED)
        # batches with valid labels
        held, begin, resting = Signal(2), Signal(), Signal()
        m.d.sync += [
            recorded.eq(recorded + self.recorded),
            missing.eq(goal - recorded),
            held.eq(held + begin - self.labels_done),
        ]
        waiting, unpacking = self._unpack(m, begin)
        # in the scratch a batch's records are read before the next batch overwrites them
        ahead = ~self.job.infer if self.cached else Const(0, 1)
        m.d.comb += [
            load.raw.eq(self.job.raw),
            self.idle.eq(resting & ~waiting & ~unpacking),
            self.label.address.eq(number + Mux(half, self.most, 0)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [resting.eq(1), batch.ready.eq(~waiting & (ahead | ~unpacking))]
                m.d.sync += number.eq(0)
                with m.If(self.job.start):
                    m.d.sync += half.eq(0)
                with m.If(batch.valid & batch.ready):
                    m.d.sync += [self._count.eq(batch.count), goal.eq(batch.goal)]
                    for name, option in self._options.items():
                        m.d.sync += option.eq(getattr(batch.options, name))
                    m.next = "COMPARE"
            # new samples are in the cache before they are read
            with m.State("COMPARE"):
                m.next = "COMPLETE"
            with m.State("COMPLETE"), m.If((missing == 0) | missing[-1]):
                m.next = "SETTLE"
            with m.State("SETTLE"):
                # with further records the memory would never settle
                m.d.comb += [self.settling.eq(~held[1]), begin.eq(self.settled & ~held[1])]
                with m.If(begin):
                    m.next = "SELECT"
            self._entry(m, address)
            with m.State("ASKED"):
                m.d.sync += half.eq(~half)
                m.next = "IDLE"
        return m

    def _unpack(self, m: Module, begin: Value) -> tuple[Value, Value]:
        """Start the unpacking of requested batches; return whether a batch waits, and whether one is unpacked."""
        load, loaded = self.load, self.loaded
        waiting, unpacking = Signal(), Signal()
        # batches in the batch memory
        kept = Signal(2)
        m.d.sync += kept.eq(kept + load.start - self.computed)
        m.d.comb += [loaded.half.eq(load.half), loaded.count.eq(load.count)]
        with m.If(begin):
            m.d.sync += waiting.eq(1)
        with m.FSM():
            with m.State("WAIT"):
                m.d.sync += load.count.eq(self._count)
                for name, option in self._options.items():
                    m.d.sync += getattr(loaded.options, name).eq(option)
                with m.If(self.job.start):
                    m.d.sync += load.half.eq(0)
                with m.If(waiting & ~kept[1]):
                    m.next = "START"
            with m.State("START"):
                m.d.comb += [load.start.eq(1), unpacking.eq(1)]
                m.d.sync += waiting.eq(0)
                m.next = "UNPACK"
            with m.State("UNPACK"):
                m.d.comb += unpacking.eq(1)
                with m.If(~load.busy):
                    m.d.comb += loaded.valid.eq(1)
                    m.d.sync += load.half.eq(~load.half)
                    m.next = "COUNTED"
            # `idle` stays low until `loaded` is counted
            with m.State("COUNTED"):
                m.d.comb += unpacking.eq(1)
                m.next = "WAIT"
        return waiting, unpacking

    def _reads(self, m: Module, address: AddressGenerator) -> tuple[Signal, Signal]:
        """Common address and count of all reads; return the signals of the offset and the beats.

        All reads share an adder, and the memory's arbiters need no multiplexer.
        """
        sizes = self.sizes
        most = max(sizes.sample_beats, sizes.raw_beats, sizes.record_beats)
        offset, beats = Signal(range(most + 1), name="read_offset"), Signal(range(most + 1), name="read_beats")
        asked = Signal.like(address.address, name="read_address")
        m.d.comb += asked.eq(address.address + offset)
        apart = [self.scale_command] if sizes.loads_apart else []
        for each in (self.sample_command, self.record_command, *apart):
            m.d.comb += [each.payload.address.eq(byte_address(asked)), each.payload.beats.eq(beats)]
        return offset, beats

    def _entry(self, m: Module, address: AddressGenerator) -> None:
        """States of an entry: reads of its sample, its record's scales, its record's codes or words."""
        sizes, job, batch, number = self.sizes, self.job, self.batch, self.batch.number
        offset, beats = self._reads(m, address)
        record, read = Signal(24, reset_less=True), self.record_command
        of_scales = self.scale_command if sizes.loads_apart else read
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
                address.stride.eq(sizes.sample_beats),
                address.base.eq(beat_number(job.samples)),
                address.start.eq(sizes.takes_sample),
            ]
            m.next = "SAMPLE" if sizes.takes_sample else "RECORD"
        if sizes.takes_sample:
            with m.State("SAMPLE"):
                m.d.comb += [beats.eq(sizes.sample_beats), self.sample_command.valid.eq(address.done)]
                with m.If(address.done & self.sample_command.ready):
                    m.next = "RECORD"
        with m.State("RECORD"):
            # the labels of the half's previous batch are no longer used
            m.d.comb += [
                self.label.enable.eq(1),
                address.index.eq(record),
                address.stride.eq(Mux(job.raw, sizes.raw_beats, sizes.record_beats)),
                address.base.eq(beat_number(job.cache)),
                address.start.eq(1),
            ]
            if self._ports > 1:
                m.d.sync += self.port.eq(Mux(self.port == self._ports - 1, 0, self.port + 1))
            m.next = "SCALES"
        with m.State("SCALES"):
            m.d.comb += [
                offset.eq(sizes.code_beats),
                beats.eq(sizes.scale_beats),
                of_scales.valid.eq(address.done & ~job.raw),
            ]
            with m.If(address.done & (of_scales.ready | job.raw)):
                m.next = "CODES"
        with m.State("CODES"):
            m.d.comb += [
                offset.eq(Mux(job.raw, sizes.unread_raw_beats, sizes.unread_beats)),
                beats.eq(Mux(job.raw, sizes.raw_beats - sizes.unread_raw_beats, sizes.code_beats - sizes.unread_beats)),
                read.valid.eq(1),
            ]
            with m.If(read.ready):
                m.d.sync += number.eq(number + 1)
                m.next = "SELECT"
                with m.If(number == self._count - 1):
                    m.next = "ASKED"
