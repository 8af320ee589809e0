"""Writer of a step's records."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ....golden.axi.bus import ADDRESS_BITS, BEAT
from ....golden.zo.coefficient import COEFFICIENT, LARGEST_BATCH, STEP_DIFFERENCE
from ....golden.zo.memory_layout import WORDS
from ...axi.memory_port import WritePort, beat_number, byte_address
from ...ports import shape

SAMPLE = data.StructLayout({"word": 32, "last": 1})
"""Word with a sample's losses, and a flag: the step's last sample."""
SUMMARY = data.StructLayout({"position": 32, "coefficient": shape(COEFFICIENT), "difference": shape(STEP_DIFFERENCE)})
"""Position, coefficient and loss difference of a step."""


class RecordWriter(wiring.Component):
    """Write records in the format of `golden.zo.memory_layout.ZerothOrderLayout.records_image`, a beat per command.

    Attributes
    ----------
    start : In, 1
        Begin a job: the first record goes to `address`. One cycle.
    address : In, `address` bits
        Byte address, a multiple of a beat's 16 bytes.
    batch : In, 9
        Number of sample words that a record reserves; stable during a job.
    sample : In stream of `SAMPLE`
        Words of a step's samples.
    summary : In stream of `SUMMARY`
        Summary of a step, after its last sample.
    write : Out, `WritePort`
    empty : Out, 1
        All accepted words have been handed to the memory.
    """

    def __init__(self, address: int = ADDRESS_BITS) -> None:
        super().__init__(
            {
                "start": In(1),
                "address": In(address),
                "batch": In(LARGEST_BATCH.bit_length()),
                "sample": In(stream.Signature(SAMPLE)),
                "summary": In(stream.Signature(SUMMARY)),
                "write": Out(WritePort(address)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command, beats = self.write.command, self.write.beats
        sample, summary = self.sample.payload, self.summary.payload
        beat, lane = Signal(8 * BEAT, reset_less=True), Signal(range(WORDS))
        start = beat_number(self.address)
        next_beat, end = Signal.like(start, reset_less=True), Signal.like(start, reset_less=True)
        offered, announced, closing = Signal(), Signal(), Signal()
        free = ~offered
        m.d.comb += [
            command.valid.eq(offered & ~announced),
            command.payload.address.eq(byte_address(next_beat)),
            command.payload.beats.eq(1),
            beats.valid.eq(offered & announced),
            beats.payload.eq(beat),
            self.sample.ready.eq(free),
            self.summary.ready.eq(free & (lane == 0) & ~self.sample.valid),
            self.empty.eq(free & (lane == 0)),
        ]
        # beats reserved for samples; the summary follows
        room = (self.batch + WORDS - 1) >> exact_log2(WORDS)
        with m.If(self.start):
            m.d.sync += [next_beat.eq(start), end.eq(start + room), lane.eq(0)]
        with m.If(self.sample.valid & self.sample.ready):
            for number in range(WORDS):
                with m.If(lane == number):
                    m.d.sync += beat.word_select(number, 32).eq(sample.word)
                with m.Elif(lane == 0):
                    m.d.sync += beat.word_select(number, 32).eq(0)
            full = sample.last | (lane == WORDS - 1)
            m.d.sync += [offered.eq(full), closing.eq(0), lane.eq(lane + 1)]
            with m.If(sample.last):
                m.d.sync += lane.eq(0)
        with m.Elif(self.summary.valid & self.summary.ready):
            difference = Signal(signed(64))
            coefficient = Signal(signed(32))
            m.d.comb += [difference.eq(summary.difference), coefficient.eq(summary.coefficient)]
            m.d.sync += [beat.eq(Cat(summary.position, coefficient, difference)), next_beat.eq(end)]
            m.d.sync += [offered.eq(1), closing.eq(1)]
        with m.If(command.valid & command.ready):
            m.d.sync += announced.eq(1)
        with m.If(beats.valid & beats.ready):
            m.d.sync += [offered.eq(0), announced.eq(0), next_beat.eq(next_beat + 1)]
            with m.If(closing):
                m.d.sync += end.eq(end + room + 1)
        return m
