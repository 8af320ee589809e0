"""Sample reads: the sentences of a pass, and the read commands of their rows."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import ADDRESS_BITS, BEAT_COUNT_BITS
from ...axi.bursts import command
from ...axi.memory_port import byte_address
from .pass_memory import entry_layout


class SampleReads(wiring.Component):
    """Issues each sentence of a pass, and a read command for each of its tokens.

    Parameters
    ----------
    tokens : int
        Most tokens of a side.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    start : In(1)
        Begin a pass; one cycle. The inputs below are stable until `done`.
    sentences : In
        Sentences of the pass.
    kept : In(1)
        Read rows from the cache of the cut, not from the samples.
    token_beats : In(16)
        Beats of a token's rows.
    number, entry : Out, In
        Read port of `PassMemory`.
    sentence : Out, stream of ``first``, ``length``
        First row and tokens of a sentence.
    command : Out, stream of `command`
    done : Out(1)
        The last read command was taken; one cycle.
    """

    def __init__(self, tokens: int, address: int = ADDRESS_BITS) -> None:
        count = range(tokens + 1)
        super().__init__(
            {
                "start": In(1),
                "sentences": In(count),
                "kept": In(1),
                "token_beats": In(BEAT_COUNT_BITS),
                "number": Out(range(tokens)),
                "entry": In(entry_layout(tokens, address)),
                "sentence": Out(stream.Signature(data.StructLayout({"first": count, "length": count}))),
                "command": Out(command(address)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        sentence, entry, read = self.sentence, self.entry, self.command
        beat, tokens_left = Signal.like(entry.beat, reset_less=True), Signal.like(entry.tokens, reset_less=True)
        m.d.comb += [
            sentence.payload.length.eq(entry.tokens),
            read.payload.address.eq(byte_address(beat)),
            read.payload.beats.eq(self.token_beats),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [self.number.eq(0), sentence.payload.first.eq(0)]
                with m.If(self.start):
                    m.next = "READ"
            with m.State("READ"):
                m.next = "SENTENCE"
            with m.State("SENTENCE"):
                m.d.comb += sentence.valid.eq(1)
                m.d.sync += [beat.eq(Mux(self.kept, entry.kept, entry.beat)), tokens_left.eq(entry.tokens)]
                with m.If(sentence.ready):
                    m.d.sync += [sentence.payload.first.eq(sentence.payload.first + entry.tokens), read.valid.eq(1)]
                    m.next = "TOKEN"
            with m.State("TOKEN"), m.If(read.ready):
                m.d.sync += [beat.eq(beat + self.token_beats), tokens_left.eq(tokens_left - 1)]
                with m.If(tokens_left == 1):
                    m.d.sync += [self.number.eq(self.number + 1), read.valid.eq(0)]
                    m.next = "READ"
                    with m.If(self.number == self.sentences - 1):
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
        return m
