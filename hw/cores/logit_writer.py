"""Logit writer: packs logits into beats and writes them, sample by sample."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import ADDRESS_BITS, BEAT_COUNT_BITS
from ..axi.memory_port import WritePort, beat_number, byte_address
from ..nn.interfaces import LOGIT
from ..primitives.registers import data_register

PER_BEAT = 4
"""Logits of a beat, 32 bits each."""


class LogitWriter(wiring.Component):
    """Writes each sample's logits, four a beat; takes one logit a cycle.

    Each sample has a write command, issued before its first logit is taken.

    Parameters
    ----------
    beats : int, optional
        Beats of a sample: its classes, in whole beats. By default the input `sample_beats` has the number.
    address : int
        Bits of a byte address.
    logit : stream.Signature, optional
        Stream of the logits, with ``logit`` of at most 32 bits and ``last``.

    Attributes
    ----------
    start : In(1)
        Write the next sample to `address`, later samples after it. One cycle.
    address : In, `address` bits
        Byte address, a multiple of a beat's 16 bytes.
    sample_beats : In, 16 bits, without `beats`
        Beats of a sample; stable during a job.
    i : In stream of `logit`
        Logits, sign-extended to 32 bits in the beat; `last` with a sample's last logit.
    write : Out, `WritePort`
        Commands and beats; a sample's last beat is padded with zeros.
    empty : Out(1)
        The memory has accepted all beats of the logits taken so far.
    """

    def __init__(self, beats: int = 0, address: int = ADDRESS_BITS, logit: stream.Signature = LOGIT) -> None:
        self.beats = beats
        super().__init__(
            {
                "start": In(1),
                "address": In(address),
                **({} if beats else {"sample_beats": In(BEAT_COUNT_BITS)}),
                "i": In(logit),
                "write": Out(WritePort(address)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command, beats = self.write.command, self.write.beats
        start = beat_number(self.address)
        next_beat, lane = Signal.like(start, reset_less=True), Signal(range(PER_BEAT))
        announced, offered = Signal(), Signal()
        taken, sample_beats = self.i.valid & self.i.ready, self.beats or self.sample_beats
        m.d.comb += [
            command.valid.eq(self.i.valid & ~announced),
            command.payload.address.eq(byte_address(next_beat)),
            command.payload.beats.eq(sample_beats),
            self.i.ready.eq(announced & (~offered | beats.ready)),
            beats.valid.eq(offered),
            self.empty.eq(~offered & (lane == 0) & ~announced),
        ]
        with m.If(self.start):
            m.d.sync += next_beat.eq(start)
        with m.If(command.valid & command.ready):
            m.d.sync += [announced.eq(1), next_beat.eq(next_beat + sample_beats)]
        with m.If(beats.ready):
            m.d.sync += offered.eq(0)
        words = data_register(m, beats.payload, "beat")
        with m.If(taken):
            last = self.i.payload.last
            m.d.sync += [lane.eq(Mux(last, 0, lane + 1)), offered.eq(last | (lane == PER_BEAT - 1))]
            for number in range(PER_BEAT):
                with m.If(lane == number):
                    m.d.sync += words.word_select(number, 32).eq(self.i.payload.logit)
                with m.Elif(lane == 0):
                    m.d.sync += words.word_select(number, 32).eq(0)
            with m.If(last):
                m.d.sync += announced.eq(0)
        return m
