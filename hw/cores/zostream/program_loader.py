"""Program loader: has a program checked, keeps what it says, and runs it."""

from enum import IntEnum

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT_COUNT_BITS
from ....golden.cores.zostream.registers import PROGRAM
from ....golden.stream.instruction import ROW_BITS
from ....golden.stream.machine.limits import Reason
from ....golden.stream.machine.program_sequencer import COUNTS, ProgramSequencerSpec
from ...ports import layout

_TOKEN = 32
"""Values of a row of a sample, of 3 bytes each."""
MOST_FEATURES_BITS = 18
"""Bits of a token's values: more beats than a read command counts would be more of them."""


class ProgramLoader(wiring.Component):
    """Load a program and look at its last instruction, whose results are the logits; give its instructions in a pass.

    Parameters
    ----------
    spec : ProgramSequencerSpec
        The sequencer.
    errors : type of IntEnum
        The core's error codes.
    classes : int
        Most logits of a sample.
    times : int
        Rows of deltas, after which words return.

    Attributes
    ----------
    load, run : In(1)
        Load a program, begin a pass; one cycle.
    beats : In, 16 bits
        Beats of the program's image; stays while it is loaded.
    loaded : Out(1)
        It is checked and accepted; one cycle. If it is not, `failed` rises.
    valid : Out(1)
        There is a program; those below are its own.
    operations, capacity, features, inputs, words : Out
        As its header says.
    rows : Out
        Rows of the deltas of its words.
    token_beats, logit_beats : Out, 16 bits
        Beats of a token of a sample, and of a sample's logits.
    outputs, base : Out
        Logits of a sample, and their address in the activation memory.
    failed, error, number : Out
        A program was refused: the code, and the number of the operation. Held until reset.
    command, status, o : Out, In, In
        Streams of `ProgramSequencer`.
    instruction : Out, stream
        Instructions of a pass.
    """

    def __init__(self, spec: ProgramSequencerSpec, errors: type[IntEnum], classes: int, times: int) -> None:
        self._errors, self._classes, self._times, self._spec = errors, classes, times, spec
        streams = {name: stream.Signature(layout(port)) for name, port in spec.streams().items()}
        told = ("operations", "capacity", "features", "inputs", "words")
        super().__init__(
            {
                **dict.fromkeys(("load", "run"), In(1)),
                "beats": In(BEAT_COUNT_BITS),
                **dict.fromkeys(("loaded", "valid"), Out(1)),
                **{name: Out(COUNTS[name]) for name in told},
                "rows": Out(range(times + 1)),
                **dict.fromkeys(("token_beats", "logit_beats"), Out(BEAT_COUNT_BITS)),
                "outputs": Out(range(classes + 1)),
                "base": Out(range(spec.rows)),
                "failed": Out(1),
                "error": Out(max(errors).bit_length()),
                "number": Out(COUNTS["operations"]),
                "command": Out(streams["command"]),
                "status": In(streams["status"]),
                "o": In(streams["o"]),
                "instruction": Out(streams["o"]),
            }
        )
        self._told = told

    def elaborate(self, platform: object) -> Module:
        m = Module()
        command, status, given, last = self.command, self.status.payload, self.o, self.o.payload
        looks = Signal()
        m.d.comb += [
            command.payload.run.eq(1),
            command.payload.beats.eq(self.beats),
            self.instruction.payload.eq(given.payload),
            self.instruction.valid.eq(given.valid & ~looks),
            given.ready.eq(self.instruction.ready & ~looks),
        ]
        # the last instruction, at first with all bits of its numbers
        outputs, buffer = Signal.like(last.outputs, reset_less=True), Signal.like(last.destination, reset_less=True)
        shifted = Signal(reset_less=True)
        beats = (self.features[:MOST_FEATURES_BITS] + (_TOKEN - 1)) >> (_TOKEN - 1).bit_length()
        m.d.comb += self.outputs.eq(outputs)
        m.d.sync += [
            # 96 bytes a row
            self.token_beats.eq((beats << 2) + (beats << 1)),
            self.logit_beats.eq((outputs[: len(self.outputs)] + 3) >> 2),
            self.rows.eq(Mux(self.words < self._times, self.words, self._times)),
        ]
        with m.FSM():
            with m.State("IDLE"):
                with m.If(self.load):
                    m.d.sync += self.valid.eq(0)
                    m.next = "LOAD"
                with m.Elif(self.run):
                    m.d.sync += command.payload.first.eq(0)
                    m.next = "RUN"
            with m.State("LOAD"):
                m.d.comb += [command.valid.eq(1), command.payload.run.eq(0)]
                with m.If(command.ready):
                    m.next = "STATUS"
            with m.State("STATUS"), m.If(self.status.valid):
                m.d.comb += self.status.ready.eq(1)
                m.d.sync += [getattr(self, name).eq(status[name]) for name in self._told]
                m.d.sync += [command.payload.first.eq(status.operations - 1), self.number.eq(status.place)]
                m.next = "LAST"
                with m.If(status.reason != Reason.NONE):
                    self._fail(m, status.reason)
            with m.State("LAST"):
                m.d.comb += command.valid.eq(1)
                with m.If(command.ready):
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.comb += [looks.eq(1), given.ready.eq(1)]
                m.d.sync += [outputs.eq(last.outputs), buffer.eq(last.destination), shifted.eq(last.result_shift != 0)]
                with m.If(given.valid):
                    m.next = "JUDGE"
            self._judge(m, outputs, buffer, shifted)
            with m.State("RUN"):
                m.d.comb += command.valid.eq(1)
                with m.If(command.ready):
                    m.next = "IDLE"
            with m.State("FAILED"):
                pass
        return m

    def _judge(self, m: Module, outputs: Signal, buffer: Signal, shifted: Signal) -> None:
        """Refuse too many logits, those of another format, and sizes that are 0; find the address of the logits."""
        first, stride, left = (
            Signal(ROW_BITS, name="first", reset_less=True),
            Signal.like(self.base, name="stride", reset_less=True),
            Signal(range(ROW_BITS + 1), name="bits_left"),
        )
        none = (self.features == 0) | self.features[MOST_FEATURES_BITS:].any()
        reasons = (
            (Reason.SIZE, none | (outputs > self._classes)),
            (Reason.WORDS, self.words == 0),
            (Reason.FORMAT, buffer[ROW_BITS] | shifted),
        )
        with m.State("JUDGE"):
            m.d.sync += [first.eq(buffer), stride.eq(self.capacity), self.base.eq(0), left.eq(ROW_BITS)]
            # read where it has failed
            m.d.sync += [self.number.eq(self.operations - 1), self.error.eq(PROGRAM)]
            m.next = "MULTIPLY"
            for reason, wrong in reversed(reasons):
                with m.If(wrong):
                    self._fail(m, reason)
        with m.State("MULTIPLY"):
            # a bit a cycle: there is time, and no DSP
            m.d.sync += [first.eq(first >> 1), stride.eq(stride << 1), left.eq(left - 1)]
            m.d.sync += self.base.eq(self.base + Mux(first[0], stride, 0))
            with m.If(left == 0):
                m.d.sync += self.valid.eq(1)
                m.d.comb += self.loaded.eq(1)
                m.next = "IDLE"

    def _fail(self, m: Module, reason: Value | int) -> None:
        """Report a refusal, and go on for ever with nothing."""
        m.d.sync += [self.failed.eq(1), self.error.eq(PROGRAM + reason)]
        m.next = "FAILED"
