"""Program loader: loads a program, stores its sizes, and issues its instructions."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ....golden.axi.bus import BEAT_COUNT_BITS
from ....golden.cores.zostream.registers import PROGRAM
from ....golden.cores.zostream.zostream import MOST_FEATURES, MOST_KEPT
from ....golden.stream.instruction import ROW_BITS, Kind
from ....golden.stream.machine.limits import Reason
from ....golden.stream.machine.program_sequencer import HEADER_FIELDS, ProgramSequencerSpec
from ...ports import layout
from ...probe import probe

_TOKEN = 32
"""Values of a sample's row, of 3 bytes each."""
KEPT_BITS = MOST_KEPT.bit_length()
"""Bits of the number of values of a row at the cut."""
_FEATURE_BITS = (MOST_FEATURES - 1).bit_length()


class ProgramLoader(wiring.Component):
    """Loads and checks a program, and issues its instructions in each pass.

    The results of the last instruction are the logits; the results of the last instruction before the cut are the
    values at the cut.

    Parameters
    ----------
    spec : ProgramSequencerSpec
    errors : type of IntEnum
        Error codes of the core.
    classes : int
        Most logits of a sample.
    times : int
        Rows of deltas; longer perturbations repeat them.

    Attributes
    ----------
    load, run : In(1)
        Load a program, begin a pass; one cycle.
    behind, before : In(1)
        With `run`: only the instructions after the cut, or before it.
    beats : In, 16 bits
        Beats of the program's image; stable during the load.
    loaded : Out(1)
        The program is accepted; one cycle. After a refusal `failed` rises instead.
    valid : Out(1)
        A program is loaded; the outputs below describe it.
    operations, capacity, features, inputs, words : Out
        Values of the header.
    cut, split, pooled : Out(1)
        The program has a cut; words of both parts are perturbed; a sentence has a single row at the cut.
    first_rows, rows : Out
        Rows of the deltas of the first part, and of the last or only part.
    token_beats, logit_beats : Out, 16 bits
        Beats of a token, and of a sample's logits.
    outputs, base : Out
        Logits of a sample, and their address in the activation memory.
    kept_outputs, kept_wide, kept_base, kept_buffer, kept_beats : Out
        A row at the cut: values, memory, address of the first row, `Buffer`, and beats of a row.
    failed, error, number : Out
        The program was refused: error code, and number of the operation. Held until reset.
    command, status, o : Out, In, In
        Streams of `ProgramSequencer`.
    instruction : Out, stream
        Instructions of a pass.
    """

    def __init__(self, spec: ProgramSequencerSpec, errors: type[IntEnum], classes: int, times: int) -> None:
        self._errors, self._classes, self._times, self._spec = errors, classes, times, spec
        streams = {name: stream.Signature(layout(port)) for name, port in spec.streams().items()}
        header = ("operations", "capacity", "features", "inputs", "words", "behind")
        self._header = header
        super().__init__(
            {
                **dict.fromkeys(("load", "run", "behind", "before"), In(1)),
                "beats": In(BEAT_COUNT_BITS),
                **dict.fromkeys(("loaded", "valid"), Out(1)),
                **{name: Out(HEADER_FIELDS[name]) for name in header if name != "behind"},
                **dict.fromkeys(("cut", "split", "pooled"), Out(1)),
                **dict.fromkeys(("first_rows", "rows"), Out(range(times + 1))),
                **dict.fromkeys(("token_beats", "logit_beats", "kept_beats"), Out(BEAT_COUNT_BITS)),
                "outputs": Out(range(classes + 1)),
                "base": Out(range(spec.rows)),
                "kept_outputs": Out(KEPT_BITS),
                "kept_wide": Out(1),
                "kept_base": Out(range(max(spec.rows, spec.wide_rows))),
                "kept_buffer": Out(ROW_BITS + 1),
                "failed": Out(1),
                "error": Out(max(errors).bit_length()),
                "number": Out(HEADER_FIELDS["operations"]),
                "command": Out(streams["command"]),
                "status": In(streams["status"]),
                "o": In(streams["o"]),
                "instruction": Out(streams["o"]),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the RTL. Longer than most, as the states of one machine share its registers."""
        m = Module()
        command, status, offered, last = self.command, self.status.payload, self.o, self.o.payload
        looks, refused = Signal(), Signal(reset_less=True)
        # words after the cut, instructions before the cut, remaining instructions of the pass
        behind, first_part, remaining = (
            Signal(HEADER_FIELDS["behind"]),
            Signal(HEADER_FIELDS["operations"]),
            Signal(HEADER_FIELDS["operations"]),
        )
        words = {name: behind if name == "behind" else getattr(self, name) for name in self._header}
        with m.If(self.instruction.valid & self.instruction.ready):
            m.d.sync += remaining.eq(remaining - 1)
        m.d.comb += [
            command.payload.run.eq(1),
            self.instruction.payload.eq(offered.payload),
            # a pass may end at the cut
            self.instruction.payload.last.eq(last.last | (remaining == 1)),
            self.instruction.valid.eq(offered.valid & ~looks),
            offered.ready.eq(self.instruction.ready & ~looks),
        ]
        # all bits of the last instruction's numbers, which are not yet checked
        outputs, buffer = Signal.like(last.outputs, reset_less=True), Signal.like(last.destination, reset_less=True)
        shifted, kept = Signal(reset_less=True), Signal.like(last.outputs, name="kept", reset_less=True)
        self._sizes(m, outputs, kept, behind)
        pools = last.kind == Kind.POOL
        with m.FSM() as fsm:
            with m.State("IDLE"):
                with m.If(self.load):
                    m.d.sync += self.valid.eq(0)
                    m.next = "LOAD"
                with m.Elif(self.run):
                    m.d.sync += command.payload.first.eq(Mux(self.behind, first_part, 0))
                    m.d.sync += remaining.eq(Mux(self.before, first_part, 0))
                    m.next = "RUN"
            with m.State("LOAD"):
                m.d.comb += [command.valid.eq(1), command.payload.run.eq(0), command.payload.count.eq(self.beats)]
                m.d.sync += [first_part.eq(0), self.pooled.eq(0), kept.eq(0)]
                with m.If(command.ready):
                    m.next = "STATUS"
            with m.State("STATUS"):
                m.d.comb += self.status.ready.eq(1)
                # registers follow the payload in each cycle of this state, as the path of valid is long
                m.d.sync += [into.eq(status[name]) for name, into in words.items()]
                # all instructions of a program with a cut are examined, otherwise only the last
                m.d.sync += command.payload.first.eq(Mux(status.behind == 0, status.operations - 1, 0))
                m.d.sync += [self.number.eq(status.place), self.error.eq(PROGRAM + status.reason)]
                m.d.sync += refused.eq(status.reason != Reason.NONE)
                with m.If(self.status.valid):
                    m.next = "TOLD"
            with m.State("TOLD"):
                m.next = "LAST"
                with m.If(refused):
                    m.d.sync += self.failed.eq(1)
                    m.next = "FAILED"
            with m.State("LAST"):
                m.d.comb += command.valid.eq(1)
                with m.If(command.ready):
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.comb += [looks.eq(1), offered.ready.eq(1)]
                m.d.sync += [outputs.eq(last.outputs), buffer.eq(last.destination), shifted.eq(last.result_shift != 0)]
                with m.If(offered.valid):
                    with m.If(self.cut & ~last.part):
                        m.d.sync += [first_part.eq(first_part + 1), kept.eq(last.outputs)]
                        m.d.sync += [self.kept_buffer.eq(last.destination), self.pooled.eq(self.pooled | pools)]
                    with m.If(last.last):
                        m.next = "COMPARE"
            self._judge(m, (outputs, kept), buffer, shifted)
            with m.State("RUN"):
                m.d.comb += [command.valid.eq(1), command.payload.count.eq(remaining)]
                with m.If(command.ready):
                    m.next = "IDLE"
            with m.State("FAILED"):
                pass
        probe(self, fsm)
        return m

    def _sizes(self, m: Module, outputs: Signal, kept: Signal, behind: Signal) -> None:
        """Compute beats of tokens, logits and rows at the cut, and rows of deltas."""
        beats = (self.features[:_FEATURE_BITS] + (_TOKEN - 1)) >> (_TOKEN - 1).bit_length()
        m.d.comb += [
            self.outputs.eq(outputs),
            self.kept_outputs.eq(kept),
            self.kept_wide.eq(self.kept_buffer[ROW_BITS]),
        ]
        m.d.sync += [
            # 96 bytes a row
            self.token_beats.eq((beats << 2) + (beats << 1)),
            self.logit_beats.eq((outputs[: len(self.outputs)] + 3) >> 2),
            self.kept_beats.eq((kept[:KEPT_BITS] + 3) >> 2),
            self.cut.eq(behind != 0),
            self.split.eq((behind != 0) & (self.words != 0)),
            self.first_rows.eq(Mux(self.words < self._times, self.words, self._times)),
            self.rows.eq(Mux(behind == 0, self.first_rows, Mux(behind < self._times, behind, self._times))),
        ]

    def _judge(self, m: Module, sizes: tuple[Signal, Signal], buffer: Signal, shifted: Signal) -> None:
        """Refuse sizes and formats of results and inputs, and compute the addresses of the results.

        The address products take a bit a cycle; the product for the last row of the inputs is computed alongside, and
        inputs beyond their memory are refused. Longer than most, as all products share registers and cycles.
        """
        outputs, kept = sizes
        stride = Signal(max(len(self.base), len(self.kept_base)), name="stride", reset_less=True)
        bits_left = Signal(range(ROW_BITS + 1), name="bits_left")
        bases = [
            (base, row, Signal(ROW_BITS, name=f"{name}first", reset_less=True))
            for base, row, name in ((self.base, buffer, ""), (self.kept_base, self.kept_buffer, "kept_"))
        ]
        stop, reach, beyond, end = self._inputs(m)
        none = (self.features == 0) | self.features[_FEATURE_BITS:].any()
        reasons = (
            (Reason.SIZE, none | (outputs > self._classes) | kept[KEPT_BITS:].any()),
            (Reason.WORDS, (self.words == 0) & ~self.cut),
            (Reason.FORMAT, buffer[ROW_BITS] | shifted),
        )
        refused = Signal(len(reasons), reset_less=True)
        m.d.sync += refused.eq(Cat(wrong for _, wrong in reasons))
        with m.State("COMPARE"):
            m.next = "JUDGE"
        with m.State("JUDGE"):
            m.d.sync += [stride.eq(self.capacity), bits_left.eq(ROW_BITS)]
            # used only after a refusal
            m.d.sync += [self.number.eq(self.operations - 1), self.error.eq(PROGRAM)]
            m.d.sync += [stop.eq(end), reach.eq(0), beyond.eq(end[ROW_BITS])]
            for base, row, first in bases:
                m.d.sync += [base.eq(0), first.eq(row)]
            m.next = "MULTIPLY"
            for number, (reason, _) in reversed([*enumerate(reasons)]):
                with m.If(refused[number]):
                    self._fail(m, reason)
        with m.State("MULTIPLY"):
            # a bit a cycle saves the DSPs
            m.d.sync += [stride.eq(stride << 1), bits_left.eq(bits_left - 1)]
            for base, _, first in bases:
                m.d.sync += [first.eq(first >> 1), base.eq(base + Mux(first[0], stride, 0))]
            # from the highest bit on the product only grows, so an excess is final
            outside = beyond | (reach > self._most)
            m.d.sync += [stop.eq(stop << 1), reach.eq((reach << 1) + Mux(stop[-1], self.capacity, 0))]
            m.d.sync += beyond.eq(outside)
            with m.If(bits_left == 0):
                m.next = "IDLE"
                with m.If(outside):
                    m.d.sync += self.number.eq(0)
                    self._fail(m, Reason.ROWS)
                with m.Else():
                    m.d.sync += self.valid.eq(1)
                    m.d.comb += self.loaded.eq(1)

    def _inputs(self, m: Module) -> tuple[Signal, Signal, Signal, Signal]:
        """Registers for the product of tokens and input rows, and the row after the inputs."""
        spec, wide = self._spec, self.inputs[ROW_BITS]
        features = self.features[:_FEATURE_BITS]
        narrow_rows, wide_rows = (
            (features + (size - 1)) >> (size - 1).bit_length() for size in (spec.lanes, spec.columns)
        )
        end, self._most = (
            Signal(ROW_BITS + 1, name="inputs_end", reset_less=True),
            Signal(range(max(spec.rows, spec.wide_rows) + 1), name="most_rows", reset_less=True),
        )
        m.d.sync += end.eq(self.inputs[:ROW_BITS] + Mux(wide, wide_rows, narrow_rows))
        m.d.sync += self._most.eq(Mux(wide, spec.wide_rows, spec.rows))
        return (
            Signal(ROW_BITS, name="rows_left", reset_less=True),
            # twice the most rows, and as many tokens
            Signal(max(len(self._most), len(self.capacity)) + 2, name="reach", reset_less=True),
            Signal(name="beyond", reset_less=True),
            end,
        )

    def _fail(self, m: Module, reason: Value | int) -> None:
        """Report a refusal and stop until reset."""
        m.d.sync += [self.failed.eq(1), self.error.eq(PROGRAM + reason)]
        m.next = "FAILED"
