"""RTL of `program_sequencer`: an instruction memory, whose contents are checked at load."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from ....golden.axi.bus import BEAT
from ....golden.stream.instruction import INSTRUCTION_BEATS
from ....golden.stream.machine.limits import Reason
from ....golden.stream.machine.program import HEADER_BEATS, MAGIC, VERSION
from ....golden.stream.machine.program_sequencer import HEADER_FIELDS, ProgramSequencerSpec
from ...ports import layout, members
from ...primitives.ram import ram
from ...probe import probe
from .instruction_checker import CHECKED, InstructionChecker

_BITS = 8 * BEAT
_HEADER = data.StructLayout(
    {"magic": 32}
    | dict.fromkeys(("version", "lanes", "columns", "sums", "capacity", "operations"), 16)
    | dict.fromkeys(("features", "inputs", "words", "stream_beats", "beats", "rows", "wide_rows", "behind"), 32)
)
"""Header fields of a program, lowest bits first, packed as in `golden.stream.machine.program`."""
_FIELD_BEATS = -(-_HEADER.size // _BITS)


class ProgramSequencer(wiring.Component):
    """Load and check a program, then issue its instructions in order."""

    def __init__(self, spec: ProgramSequencerSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Build the RTL; longer than most functions, as all states of the state machine share the registers."""
        m = Module()
        spec, command = self.spec, self.command.payload
        m.submodules.memory = instructions = ram(platform, spec.memories[0])
        write, read = instructions.write_port(), instructions.read_port()
        header = Signal(_FIELD_BEATS * _BITS, reset_less=True)
        packed = Signal(INSTRUCTION_BEATS * _BITS, reset_less=True)
        instruction = layout(spec.streams()["o"])
        fields, decoded = (
            data.View(_HEADER, header[: _HEADER.size]),
            data.View(instruction, packed[: instruction.size]),
        )
        loaded, running, failed = Signal(), Signal(reset_less=True), Signal(reset_less=True)
        # `final`: the instruction is the last; `behind`: the previous instruction is after the cut
        final, behind = Signal(reset_less=True), Signal(reset_less=True)
        beats, beat, index = (Signal(16, name=name, reset_less=True) for name in ("beats", "beat", "index"))
        address = Signal(range(spec.memories[0].depth + 1), reset_less=True)
        fetched = Signal(range(INSTRUCTION_BEATS + 2), reset_less=True)
        reason = Signal(Reason, reset_less=True)
        refused = self._header(m, fields, beats, failed)
        m.submodules.checker = checker = InstructionChecker(spec)
        m.d.comb += [
            Value.cast(checker.instruction).eq(decoded),
            *(getattr(checker, name).eq(getattr(fields, name)) for name in CHECKED),
        ]
        write_address = beat - HEADER_BEATS
        body = (beat >= HEADER_BEATS) & (write_address < spec.memories[0].depth)
        m.d.comb += [write.addr.eq(write_address), write.data.eq(self.image.payload.data), read.addr.eq(address)]
        status = self.status.payload
        m.d.comb += [
            status.reason.eq(reason),
            status.place.eq(Mux(_has_place(reason), index, 0)),
            *(getattr(status, name).eq(Mux(loaded, getattr(fields, name), 0)) for name in HEADER_FIELDS),
            Value.cast(self.o.payload).eq(packed),
        ]
        with m.FSM() as fsm:
            with m.State("command"):
                m.d.comb += self.command.ready.eq(1)
                # sampled in every cycle; valid once the command is accepted
                m.d.sync += [
                    running.eq(command.run),
                    index.eq(Mux(command.run, command.first, 0)),
                    address.eq(Mux(command.run, command.first[: len(address)] * INSTRUCTION_BEATS, 0)),
                ]
                m.d.sync += [fetched.eq(0), beats.eq(command.count), beat.eq(0), failed.eq(0), behind.eq(0)]
                with m.If(self.command.valid):
                    m.next = "fetch"
                    with m.If(~command.run):
                        m.d.sync += loaded.eq(0)
                        m.next = "take"
                    with m.Elif(~loaded | (command.first >= fields.operations)):
                        m.d.sync += reason.eq(Mux(loaded, Reason.NO_OPERATION, Reason.NO_PROGRAM))
                        m.next = "status"
            with m.State("take"):
                more = beat != beats
                m.d.comb += self.image.ready.eq(more)
                with m.If(~more):
                    m.next = "header"
                with m.Elif(self.image.valid):
                    m.d.comb += write.en.eq(body)
                    m.d.sync += [beat.eq(beat + 1), failed.eq(failed | self.image.payload.error)]
                    with m.Switch(beat):
                        for number in range(_FIELD_BEATS):
                            with m.Case(number):
                                m.d.sync += header.word_select(number, _BITS).eq(self.image.payload.data)
            with m.State("header"):
                m.next = "judge"
            with m.State("judge"):
                m.d.sync += reason.eq(refused)
                m.next = "status"
                with m.If(refused == Reason.NONE):
                    m.next = "fetch"
            with m.State("fetch"):
                # the memory's read latency is one cycle
                m.d.sync += [fetched.eq(fetched + 1), address.eq(address + (fetched < INSTRUCTION_BEATS))]
                with m.If(fetched.any()):
                    m.d.sync += packed.eq(Cat(packed[_BITS:], read.data))
                with m.If(fetched == INSTRUCTION_BEATS):
                    m.d.sync += fetched.eq(0)
                    m.next = "remainder"
                    with m.If(running):
                        m.next = "give"
            # `final` is stable before its use, as the fetch of an instruction takes some cycles
            m.d.sync += final.eq(index + 1 == fields.operations)
            with m.State("give"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [index.eq(index + 1), beats.eq(beats - 1)]
                    m.next = "fetch"
                    with m.If(final | (beats == 1)):
                        m.next = "command"
            with m.State("remainder"):
                m.d.comb += checker.begins.eq(1)
                m.next = "check"
            with m.State("check"), m.If(checker.ends):
                wrong = Signal(Reason)
                m.d.comb += wrong.eq(checker.reason)
                with m.If(checker.reason == Reason.NONE):
                    with m.If(decoded.last != final):
                        m.d.comb += wrong.eq(Reason.LAST)
                    with m.Elif(
                        Mux(decoded.part, index == 0, behind) | (final & (decoded.part != fields.behind.any()))
                    ):
                        m.d.comb += wrong.eq(Reason.CUT)
                m.d.sync += [reason.eq(wrong), behind.eq(decoded.part)]
                with m.If((wrong == Reason.NONE) & ~final):
                    m.d.sync += index.eq(index + 1)
                    m.next = "fetch"
                with m.Else():
                    m.d.sync += loaded.eq(wrong == Reason.NONE)
                    m.next = "status"
            with m.State("status"):
                m.d.comb += self.status.valid.eq(1)
                with m.If(self.status.ready):
                    m.next = "command"
        probe(self, fsm, loaded=loaded, running=running, final=final, index=index, address=address, fetched=fetched)
        probe(self, fields=fields, writes=write.en)
        return m

    def _header(self, m: Module, fields: Any, beats: Value, failed: Value) -> Value:
        """First reason to refuse the header, or `Reason.NONE`, one cycle late."""
        spec = self.spec
        size = {name: getattr(spec, name) for name in ("lanes", "columns", "sums", "rows", "wide_rows")}
        conditions = [
            (Reason.BUS, failed),
            (Reason.MAGIC, (beats < HEADER_BEATS) | (fields.magic != int.from_bytes(MAGIC, "little"))),
            (Reason.VERSION, fields.version != VERSION),
            (Reason.CORE, Cat(getattr(fields, name) != value for name, value in size.items()).any()),
            (Reason.LENGTH, beats != fields.operations * INSTRUCTION_BEATS + HEADER_BEATS),
            (Reason.LENGTH, fields.operations > spec.operations),
            (Reason.EMPTY, fields.operations == 0),
            (Reason.CAPACITY, (fields.capacity == 0) | (fields.capacity > spec.sums)),
        ]
        wrong = Signal(len(conditions), reset_less=True)
        m.d.sync += wrong.eq(Cat(condition for _, condition in conditions))
        first_reason: Value = Const(Reason.NONE)
        for number, (reason, _) in reversed([*enumerate(conditions)]):
            first_reason = Mux(wrong[number], reason, first_reason)
        return first_reason


def _has_place(reason: Value) -> Value:
    return ((reason >= Reason.KIND) & (reason <= Reason.LAST)) | (reason == Reason.CUT)
