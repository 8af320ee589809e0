"""Sample scheduler: reads the sample schedule and requests records of uncached samples."""

from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS
from ....golden.lora.memories import WORD, mark_memory, order_memory
from ....golden.lora.record_sizes import RecordSizes
from ...axi.bursts import command
from ...axi.memory_port import OFFSET_BITS, CommandFault, ReadPort, beat_number, byte_address
from ...primitives.address_generator import AddressGenerator
from ...primitives.ram import ram
from ..job_interfaces import ENTRY, PLAIN, RATE, BatchDescriptor, JobOptions, JobSettings, NewSample

ORDER_WORD = Shape.cast(ENTRY).width
"""Bits of a word of the schedule: an entry or a rate."""


class SampleScheduler(wiring.Component):
    """Scans the schedule a batch ahead of `BatchScheduler`.

    A cached entry takes six cycles. For a new entry, the read of its sample is issued when the previous sample has
    nearly arrived. Faults: indices from `cache_entries` up, labels from `RecordSizes.labels` up, rates of 0 or of more
    than `RATE` bits.

    Parameters
    ----------
    sizes : RecordSizes
    batch, cache_entries : int
        Most samples of a batch and of the cache; with 0 entries all jobs use the scratch, as inferences do.
    errors : type of IntEnum
        The core's error codes, with ``BAD_INDEX``, ``BAD_LABEL`` and ``BAD_RATE``.
    shared : bool
        An inference overwrites the cache and thus empties it.
    address : int
        Bits of a byte address.
    options : JobOptions
        With `JobOptions.stops` an epoch begins after the end of all batches of the previous epoch.

    Attributes
    ----------
    job : In, `JobSettings`
        `start` only while `ready`.
    forget : In(1)
        Empty the cache, as a reset does; one cycle, only while `ready`.
    order_read : Out, `ReadPort`
        Reads of the schedule; always ready for beats.
    sample_command : Out stream of `command`
        Read commands of new samples; their beats go to the engine.
    new_sample : Out, `NewSample`
        A new sample with an accepted read command.
    batch : Out, `BatchDescriptor`
    over : In(1)
        All batches taken so far are complete.
    low : In(1), with `JobOptions.stops`
        The last loss ends the job; sampled while `over`, before an epoch begins.
    ended : Out(1)
        End of the job; one cycle.
    ready : Out(1)
        A job can begin.
    missed : Out(1)
        A sample is new; one cycle each.
    fault : Out, `CommandFault`
        Index, label or rate out of range, with the value. Held until reset.
    """

    def __init__(
        self,
        sizes: RecordSizes,
        batch: int,
        cache_entries: int,
        errors: type[IntEnum],
        shared: bool = False,
        address: int = ADDRESS_BITS,
        options: JobOptions = PLAIN,
    ) -> None:
        self.sizes, self.most, self.cache_entries = sizes, batch, cache_entries
        self.errors, self.shared, self.options = errors, shared, options
        super().__init__(
            {
                "job": In(JobSettings(batch, address, options)),
                "forget": In(1),
                "order_read": Out(ReadPort(address)),
                "sample_command": Out(command(address)),
                "new_sample": Out(NewSample(address)),
                "batch": Out(BatchDescriptor(batch, options)),
                "over": In(1),
                **({"low": In(1)} if options.stops else {}),
                **dict.fromkeys(("ended", "ready", "missed"), Out(1)),
                "fault": Out(CommandFault(errors, address)),
            }
        )
        self._order, self._marks = order_memory(batch, options.rates), mark_memory(cache_entries)
        rows = self._marks.depth
        self._left, self._epochs = (Signal(32, name=name, reset_less=True) for name in ("left", "epochs"))
        self._order_at = Signal(address - OFFSET_BITS, reset_less=True)
        self._beats, self._sweep = Signal(range(self._half_rows + 1)), Signal(range(rows))
        self._number, self._half = Signal.like(self.batch.count), Signal()
        self._index, self._record = (Signal(24, name=name, reset_less=True) for name in ("index", "record"))
        self._label = Signal(8, reset_less=True)
        self._rate, self._validating = Signal(ORDER_WORD, reset_less=True), Signal()
        self._address = AddressGenerator(address - OFFSET_BITS)

    @property
    def _half_rows(self) -> int:
        """Rows of four words for a batch, a power of two."""
        return self._order.depth // 2

    @property
    def _has_rate(self) -> Value:
        """Whether a rate follows the batch's entries: not in a validation."""
        rates = Value.cast(self.job.options.rates)
        return rates & ~self._validating if self.options.validates else rates

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.address_generator = self._address
        # two batches: a batch is scanned while another is loaded
        m.submodules.order = order = ram(platform, self._order, data.ArrayLayout(ENTRY, 4))
        m.submodules.marks = marks = ram(platform, self._marks)
        entry = self._entries(m, order)
        mark, look = marks.write_port(), marks.read_port()
        m.d.comb += [
            look.addr.eq(self._index[5:]),
            mark.addr.eq(self._index[5:]),
            mark.data.eq(look.data | (Const(1, WORD) << self._index[:5])),
            self.order_read.command.payload.address.eq(byte_address(self._order_at)),
            self.order_read.command.payload.beats.eq(
                (self.batch.count + (3 + self._has_rate if self.options.rates else 3)) >> 2
            ),
            self.new_sample.record.eq(byte_address(self._address.address)),
            self.sample_command.payload.address.eq(byte_address(self._address.address)),
            self.sample_command.payload.beats.eq(self.sizes.sample_beats),
        ]
        if self.options.rates:
            m.d.comb += self.batch.options.rate.eq(self._rate)
        if self.options.validates:
            m.d.comb += self.batch.options.learn.eq(~self._validating)
        with m.FSM():
            self._idle(m, mark)
            self._fetch(m)
            self._look_up(m, entry, look, mark)
            self._record_sample(m)
            self._hand_over(m)
        return m

    def _entries(self, m: Module, order: memory.Memory) -> Value:
        """Connect the order memory; return the scanned entry, a cycle after its number."""
        store, fetch, shown_entry = order.write_port(), order.read_port(), order.read_port()
        bits, lane, beats = len(store.addr) - 1, Signal(2), self.order_read.beats
        m.d.sync += lane.eq(self.batch.number)
        m.d.comb += [
            fetch.addr.eq(Cat((self._number >> 2)[:bits], self._half)),
            shown_entry.addr.eq(Cat((self.batch.number >> 2)[:bits], self.batch.side)),
            self.batch.side.eq(~self._half),
            self.batch.entry.eq(shown_entry.data[lane]),
            store.addr.eq(Cat(self._beats[:bits], self._half)),
            store.data.eq(beats.payload),
            store.en.eq(beats.valid),
            beats.ready.eq(1),
        ]
        return Value.cast(fetch.data[self._number[:2]])

    def _idle(self, m: Module, mark: memory.WritePort) -> None:
        """Clear all marks; wait for a job."""
        job = self.job
        with m.State("CLEAR"):
            m.d.comb += [mark.en.eq(1), mark.addr.eq(self._sweep), mark.data.eq(0)]
            m.d.sync += self._sweep.eq(self._sweep + 1)
            with m.If(self._sweep == self._marks.depth - 1):
                m.next = "READY"
        with m.State("READY"):
            m.d.sync += [
                self._left.eq(job.samples_per_epoch),
                self._epochs.eq(job.epochs),
                self._order_at.eq(beat_number(job.order)),
                self._sweep.eq(0),
            ]
            if self.options.validates:
                m.d.sync += self._validating.eq(0)
            m.d.comb += self.ready.eq(1)
            with m.If(self.forget):
                m.next = "CLEAR"
            with m.Elif(job.start):
                m.next = "BATCH"

    def _fetch(self, m: Module) -> None:
        """Read a batch's entries."""
        job, count, read = self.job, self.batch.count, self.order_read
        with m.State("BATCH"):
            m.d.sync += [
                count.eq(Mux(self._left < job.batch, self._left, job.batch)),
                self._beats.eq(0),
                self._number.eq(0),
            ]
            m.next = "FETCH"
        with m.State("FETCH"):
            m.d.comb += read.command.valid.eq(1)
            with m.If(read.command.ready):
                m.next = "TAKE"
        with m.State("TAKE"), m.If(read.beats.valid):
            m.d.sync += [self._beats.eq(self._beats + 1), self._order_at.eq(self._order_at + 1)]
            if self.options.rates:
                # after the entries, in the last beat
                m.d.sync += self._rate.eq(read.beats.payload.word_select(count[:2], ORDER_WORD))
            with m.If(self._beats == read.command.payload.beats - 1):
                m.next = "RATE" if self.options.rates else "SCAN"
        if self.options.rates:
            self._check_rate(m)

    def _check_rate(self, m: Module) -> None:
        """Check the batch's rate."""
        rate, fault = self._rate, self.fault
        with m.State("RATE"):
            m.next = "SCAN"
            with m.If(self._has_rate & ((rate == 0) | rate[RATE:].any())):
                m.d.sync += [fault.error.eq(self.errors["BAD_RATE"]), fault.address.eq(rate)]
                m.next = "FAILED"

    def _look_up(self, m: Module, entry: Value, look: memory.ReadPort, mark: memory.WritePort) -> None:
        """Check an entry, look up its record's mark, and set it."""
        job, address, fault, index = self.job, self._address, self.fault, self._index
        miss, bad_index, bad_label = Signal(), Signal(), Signal()
        with m.State("SCAN"):
            m.next = "ENTRY"
        with m.State("ENTRY"):
            m.d.sync += Cat(index, self._label).eq(entry)
            m.next = "LOOK"
        with m.State("LOOK"):
            # in the scratch each of two batches has separate records
            slot = self._number + Mux(self._half, self.most, 0)
            m.d.sync += self._record.eq(Mux(job.infer, slot, index) if self.cache_entries else slot)
            m.next = "JUDGE"
        with m.State("JUDGE"):
            m.d.sync += [
                bad_index.eq(~job.infer & (index >= job.cache_entries)),
                bad_label.eq(~job.infer & (self._label >= self.sizes.labels)),
                miss.eq(job.infer | ~look.data.bit_select(index[:5], 1) if self.cache_entries else 1),
            ]
            m.next = "TEST"
        with m.State("TEST"):
            m.d.comb += [
                address.index.eq(index),
                address.stride.eq(self.sizes.sample_beats),
                address.base.eq(beat_number(job.samples)),
            ]
            with m.If(bad_index):
                m.d.sync += [fault.error.eq(self.errors["BAD_INDEX"]), fault.address.eq(index)]
                m.next = "FAILED"
            with m.Elif(bad_label):
                m.d.sync += [fault.error.eq(self.errors["BAD_LABEL"]), fault.address.eq(self._label)]
                m.next = "FAILED"
            with m.Elif(miss):
                m.d.comb += [self.missed.eq(1), mark.en.eq(~job.infer), address.start.eq(1)]
                m.next = "NEW"
            with m.Else():
                m.next = "NEXT"
        with m.State("FAILED"):
            m.d.comb += fault.failed.eq(1)

    def _record_sample(self, m: Module) -> None:
        """Issue the read of a new sample, and announce its record's address."""
        job, address, new = self.job, self._address, self.new_sample
        with m.State("NEW"), m.If(address.done & new.near):
            m.next = "ASK"
        with m.State("ASK"):
            m.d.comb += [
                address.index.eq(self._record),
                address.stride.eq(Mux(job.raw, self.sizes.raw_beats, self.sizes.record_beats)),
                address.base.eq(beat_number(job.cache)),
                self.sample_command.valid.eq(1),
            ]
            with m.If(self.sample_command.ready):
                m.d.comb += address.start.eq(1)
                m.next = "RECORD"
        with m.State("RECORD"), m.If(address.done):
            m.next = "ANNOUNCE"
        with m.State("ANNOUNCE"), m.If(new.ready):
            m.d.comb += new.start.eq(1)
            m.d.sync += self.batch.goal.eq(self.batch.goal + 1)
            m.next = "NEXT"

    def _hand_over(self, m: Module) -> None:
        """Advance to the next entry; hand over a complete batch; wait for the end of the last batch."""
        batch, left = self.batch, self._left
        with m.State("NEXT"):
            m.d.sync += self._number.eq(self._number + 1)
            m.next = "SCAN"
            with m.If(self._number == batch.count - 1):
                m.d.sync += [left.eq(left - batch.count), self._number.eq(0)]
                m.next = "HAND"
        with m.State("HAND"):
            m.d.comb += batch.valid.eq(1)
            with m.If(batch.ready):
                m.d.sync += self._half.eq(~self._half)
                m.next = "AFTER"
        with m.State("AFTER"):
            m.next = "BATCH"
            with m.If(left == 0):
                self._end_epoch(m)
        if self.options.stops:
            with m.State("EPOCH"), m.If(self.over):
                m.next = "BATCH"
                with m.If(self.low):
                    m.next = "ENDED"
        with m.State("ENDED"), m.If(self.over):
            m.d.comb += self.ended.eq(1)
            m.next = "READY"
            if self.shared:
                with m.If(self.job.infer):
                    m.next = "CLEAR"

    def _end_epoch(self, m: Module) -> None:
        """Begin the epoch's validation if it is due, else the next epoch or the end of the job."""
        job, epochs, validating = self.job, self._epochs, self._validating
        m.d.sync += [self._left.eq(job.samples_per_epoch), epochs.eq(epochs - 1)]
        with m.If(epochs == 1):
            m.next = "ENDED"
        if self.options.stops:
            with m.Elif(job.options.stop):
                m.next = "EPOCH"
        if self.options.validates:
            m.d.sync += validating.eq(0)
            with m.If(~validating & job.options.validation_samples.any()):
                m.d.sync += [self._left.eq(job.options.validation_samples), validating.eq(1), epochs.eq(epochs)]
                m.next = "BATCH"
