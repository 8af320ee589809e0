"""Loads a batch once all of its samples are in the cache: labels, samples, records."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ...golden.lora.mapping import AdapterMapping
from ..axi.bursts import command
from ..primitives.address_generator import AddressGenerator
from .sample_scheduler import COUNTED, ENTRY


class Batches(wiring.Component):
    """A batch ahead of the tuner.

    Attributes
    ----------
    start, infer, raw, samples, cache
        As in `Visits`.
    next, taken, new, goal
        A batch, its samples, and how many must have been recorded by then.
    number, entry, side
        Of its samples, one cycle later; which of two turns the batch has.
    recorded, written
        A record is complete; everything given to be written has arrived.
    samples_read, records_read
        Commands.
    load, loading, free
        The loader; whether half the batch memory is free.
    given, half, count
        A batch is loaded.
    idle
        None is being loaded.
    label_write, label_address, label
        Labels.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        self.mapping, self.batch = mapping, batch
        count = range(batch + 1)
        super().__init__(
            {
                **dict.fromkeys(("start", "infer", "raw", "next", "side"), In(1)),
                **dict.fromkeys(("recorded", "written", "loading", "free"), In(1)),
                **dict.fromkeys(("samples", "cache"), In(32)),
                **dict.fromkeys(("taken", "load", "given", "half", "idle", "label_write"), Out(1)),
                "new": In(count),
                "goal": In(COUNTED),
                "number": Out(count),
                "entry": In(ENTRY),
                "samples_read": Out(command(32)),
                "records_read": Out(command(32)),
                "count": Out(count),
                "label_address": Out(range(2 * batch)),
                "label": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        record_bytes, raw_bytes = mapping.record_beats * BEAT, mapping.raw_beats * BEAT
        # what an adapter beside the last layer alone does not need
        skipped = sum(len(words) for words in mapping.record_words[: max(mapping.first - 1, 0)])
        codes = mapping.code_beats - skipped
        raw_beats = mapping.raw_beats - skipped * mapping.lanes // 4
        begin = Mux(self.raw, skipped * mapping.lanes * 4, skipped * BEAT)

        m.submodules.where = where = AddressGenerator()
        place, goal, recorded, missing = Signal(24), Signal(COUNTED), Signal(COUNTED), Signal(COUNTED)
        m.d.sync += [recorded.eq(recorded + self.recorded), missing.eq(goal - recorded)]
        read = self.records_read.payload
        m.d.comb += [
            self.label_address.eq(self.number + Mux(self.half, self.batch, 0)),
            self.samples_read.payload.address.eq(where.address),
            self.samples_read.payload.beats.eq(mapping.forward.sample_beats),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.idle.eq(1), self.taken.eq(self.next)]
                m.d.sync += self.number.eq(0)
                with m.If(self.start):
                    m.d.sync += self.half.eq(0)
                with m.If(self.next):
                    m.d.sync += [self.count.eq(self.new), goal.eq(self.goal)]
                    m.next = "COMPARE"
            # what was new is in the cache before it is read
            with m.State("COMPARE"):
                m.next = "COMPLETE"
            with m.State("COMPLETE"), m.If((missing == 0) | missing[-1]):
                m.next = "SETTLE"
            with m.State("SETTLE"), m.If(self.written & self.free):
                m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += self.load.eq(1)
                m.next = "VISIT"
            with m.State("VISIT"):
                m.next = "WHICH"
            with m.State("WHICH"):
                m.d.sync += [
                    place.eq(Mux(self.infer, self.number + Mux(self.side, self.batch, 0), self.entry.index)),
                    self.label.eq(self.entry.label),
                ]
                m.d.comb += [
                    where.index.eq(self.entry.index),
                    where.stride.eq(mapping.forward.sample_beats * BEAT),
                    where.base.eq(self.samples),
                    where.start.eq(mapping.first == 0),
                ]
                m.next = "SAMPLE" if mapping.first == 0 else "PLACE"
            if mapping.first == 0:
                with m.State("SAMPLE"):
                    m.d.comb += self.samples_read.valid.eq(where.done)
                    with m.If(where.done & self.samples_read.ready):
                        m.next = "PLACE"
            with m.State("PLACE"):
                # only now is this half's last batch done with its labels
                m.d.comb += [
                    self.label_write.eq(1),
                    where.index.eq(place),
                    where.stride.eq(Mux(self.raw, raw_bytes, record_bytes)),
                    where.base.eq(self.cache),
                    where.start.eq(1),
                ]
                m.next = "SCALES"
            with m.State("SCALES"):
                m.d.comb += [
                    read.address.eq(where.address + mapping.code_beats * BEAT),
                    read.beats.eq(mapping.scale_beats),
                ]
                m.d.comb += self.records_read.valid.eq(where.done & ~self.raw)
                with m.If(where.done & (self.records_read.ready | self.raw)):
                    m.next = "CODES"
            with m.State("CODES"):
                m.d.comb += [read.address.eq(where.address + begin), read.beats.eq(Mux(self.raw, raw_beats, codes))]
                m.d.comb += self.records_read.valid.eq(1)
                with m.If(self.records_read.ready):
                    m.d.sync += self.number.eq(self.number + 1)
                    m.next = "VISIT"
                    with m.If(self.number == self.count - 1):
                        m.next = "LOADED"
            with m.State("LOADED"), m.If(~self.loading):
                m.d.comb += self.given.eq(1)
                m.d.sync += self.half.eq(~self.half)
                m.next = "AFTER"
            with m.State("AFTER"):
                m.next = "REST"
            with m.State("REST"):
                # by now it is known to be on its way
                m.next = "IDLE"
        return m
