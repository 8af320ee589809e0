"""RTL of `program_sequencer`: a memory of instructions, and checks that share one serial multiplier and comparator."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from ...golden.axi.bus import BEAT
from ...golden.stream.machine.instruction import INSTRUCTION_BEATS
from ...golden.stream.machine.limits import Check, Counts, Derived, Limits, Reason, factors
from ...golden.stream.machine.program import HEADER_BEATS, MAGIC, VERSION
from ...golden.stream.program_sequencer import COUNTS, ProgramSequencerSpec
from ..ports import layout, members
from ..primitives.pipeline import delayed
from ..primitives.ram import ram

_BITS = 8 * BEAT
_HEADER = data.StructLayout(
    {"magic": 32}
    | dict.fromkeys(("version", "lanes", "columns", "sums", "capacity", "operations"), 16)
    | dict.fromkeys(("features", "inputs", "words", "stream_beats", "beats", "rows", "wide_rows"), 32)
)
"""Fields of a program's first beats, the lowest first, as `golden.stream.machine.program` packs them."""
_FIELD_BEATS = -(-_HEADER.size // _BITS)


class ProgramSequencer(wiring.Component):
    """Load programs, check their instructions one after the other, and give them one after the other.

    A check takes as many cycles as its count has bits, and 4. So an instruction takes some hundreds.

    Parameters
    ----------
    spec : ProgramSequencerSpec
        Size of the core, and most instructions.

    Attributes
    ----------
    command : In, stream of ``run`` (1 bit), ``first``, ``beats`` (16 bits)
        To load an image of so many beats, or to give the instructions from the first on; taken when the one before is
        done.
    image : In, stream of ``data`` (16 bytes), ``error`` (1 bit)
        Beats of an image, taken one a cycle while it is loaded, all of them whatever is in them.
    status : Out, stream of ``reason``, ``place`` and counts
        A word for each load, and for a run that is refused: `Reason`, the operation's number, and what the program says
        of all its instructions, 0 where there is none.
    o : Out, stream of the fields of an instruction
        One after the other, some cycles apart.
    """

    def __init__(self, spec: ProgramSequencerSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, command = self.spec, self.command.payload
        m.submodules.memory = instructions = ram(platform, spec.memories[0])
        write, read = instructions.write_port(), instructions.read_port()
        header = Signal(_FIELD_BEATS * _BITS, reset_less=True)
        packed = Signal(INSTRUCTION_BEATS * _BITS, reset_less=True)
        instruction = layout(spec.streams()["o"])
        fields, one = data.View(_HEADER, header[: _HEADER.size]), data.View(instruction, packed[: instruction.size])
        loaded, running, failed = Signal(), Signal(reset_less=True), Signal(reset_less=True)
        beats, beat, index = (Signal(16, name=name, reset_less=True) for name in ("beats", "beat", "index"))
        address = Signal(range(spec.memories[0].depth + 1), reset_less=True)
        fetched = Signal(range(INSTRUCTION_BEATS + 2), reset_less=True)
        reason = Signal(Reason, reset_less=True)
        refused = self._header(m, fields, beats, failed)
        checker = _Checker(m, spec, one, fields)
        write_address = beat - HEADER_BEATS
        body = (beat >= HEADER_BEATS) & (write_address < spec.memories[0].depth)
        m.d.comb += [write.addr.eq(write_address), write.data.eq(self.image.payload.data), read.addr.eq(address)]
        status = self.status.payload
        m.d.comb += [
            status.reason.eq(reason),
            status.place.eq(Mux(_has_place(reason), index, 0)),
            *(getattr(status, name).eq(Mux(loaded, getattr(fields, name), 0)) for name in COUNTS),
            Value.cast(self.o.payload).eq(packed),
        ]
        with m.FSM():
            with m.State("command"):
                m.d.comb += self.command.ready.eq(1)
                with m.If(self.command.valid):
                    m.d.sync += [
                        running.eq(command.run),
                        index.eq(command.first),
                        address.eq(command.first * INSTRUCTION_BEATS),
                    ]
                    m.d.sync += [fetched.eq(0), beats.eq(command.beats), beat.eq(0), failed.eq(0)]
                    with m.If(~command.run):
                        m.d.sync += [loaded.eq(0), index.eq(0), address.eq(0)]
                        m.next = "take"
                    with m.Elif(~loaded | (command.first >= fields.operations)):
                        m.d.sync += reason.eq(Mux(loaded, Reason.NO_OPERATION, Reason.NO_PROGRAM))
                        m.next = "status"
                    with m.Else():
                        m.next = "fetch"
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
                # a beat comes a cycle after its address
                m.d.sync += [fetched.eq(fetched + 1), address.eq(address + (fetched < INSTRUCTION_BEATS))]
                with m.If(fetched.any()):
                    m.d.sync += packed.eq(Cat(packed[_BITS:], read.data))
                with m.If(fetched == INSTRUCTION_BEATS):
                    m.d.sync += fetched.eq(0)
                    m.next = "remainder"
                    with m.If(running):
                        m.next = "give"
            final = index + 1 == fields.operations
            with m.State("give"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += index.eq(index + 1)
                    m.next = "fetch"
                    with m.If(final):
                        m.next = "command"
            with m.State("remainder"):
                m.d.comb += checker.begins.eq(1)
                m.next = "check"
            with m.State("check"), m.If(checker.ends):
                wrong = Mux(
                    checker.reason == Reason.NONE, Mux(one.last == final, Reason.NONE, Reason.LAST), checker.reason
                )
                m.d.sync += reason.eq(wrong)
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
        return m

    def _header(self, m: Module, fields: Any, beats: Value, failed: Value) -> Value:
        """Why a header is refused: the first reason that holds, of what the registers were a cycle before."""
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
        found: Value = Const(Reason.NONE)
        for number, (reason, _) in reversed([*enumerate(conditions)]):
            found = Mux(wrong[number], reason, found)
        return found


def _has_place(reason: Value) -> Value:
    """Whether a reason is that of an operation, which has a number."""
    return (reason >= Reason.KIND) & (reason <= Reason.LAST)


class _Checker:
    """The checks of an instruction, one after the other.

    A part of the module that has the instruction: its registers stand there.

    Attributes
    ----------
    begins : Signal
        An instruction is there; one cycle. It stays until `ends`.
    ends : Signal
        All checks are passed, or one is not; one cycle.
    reason : Value
        The first check that refuses, `Reason.NONE` where none does; in the cycle of `ends`.
    """

    def __init__(self, m: Module, spec: ProgramSequencerSpec, one: Any, fields: Any) -> None:
        self.begins, self.ends, self.reason = Signal(), Signal(), Signal(Reason)
        products = factors(one, spec.size)
        widths = {name: sum(len(Value.cast(factor)) for factor in pair) for name, pair in products.items()}
        registers = {name: Signal(width, name=name, reset_less=True) for name, width in widths.items()}
        remainder = Signal.like(one.heads, name="remainder", reset_less=True)
        derived = Derived(**registers, remainder=remainder)
        counts = Counts(fields.capacity, fields.words, fields.stream_beats, fields.beats)
        limits = Limits(spec.size, counts, Mux, lambda term: delayed(m, Value.cast(term), 1, "term", reset_less=True))
        checks = [*limits.checks(one, derived)]
        made = [Check(Reason.NONE, str, 0, 0, *pair) for pair in products.values()]
        steps = [*made, *checks]
        columns = {
            name: [Value.cast(getattr(step, name)) for step in steps] for name in ("base", "factor", "count", "limit")
        }
        operands = {name: Signal(max(map(len, values)), name=name, reset_less=True) for name, values in columns.items()}
        total_bits = max(len(operands["factor"]) + len(operands["count"]), len(operands["base"])) + 1
        total, multiplicand = Signal(total_bits, reset_less=True), Signal(total_bits, reset_less=True)
        count, limit = operands["count"], operands["limit"]
        step, applies = Signal(range(len(steps) + 1), reset_less=True), Signal(reset_less=True)
        equal, meant = Signal(), Signal(Reason)
        with m.Switch(step):
            for number, check in enumerate(steps):
                with m.Case(number):
                    m.d.comb += [meant.eq(check.reason), equal.eq(int(check.equal))]
        refused = Signal(reset_less=True)
        m.d.sync += refused.eq(applies & Mux(equal, total != limit, total > limit))
        with m.FSM(name="checks"):
            with m.State("idle"):
                m.d.sync += [step.eq(0), remainder.eq(one.heads)]
                with m.If(self.begins):
                    m.next = "divide"
            with m.State("divide"):
                with m.If((one.key_heads != 0) & (remainder >= one.key_heads)):
                    m.d.sync += remainder.eq(remainder - one.key_heads)
                with m.Else():
                    m.next = "operands"
            with m.State("operands"):
                with m.Switch(step):
                    for number, check in enumerate(steps):
                        with m.Case(number):
                            m.d.sync += [
                                total.eq(check.base),
                                multiplicand.eq(check.factor),
                                count.eq(check.count),
                                limit.eq(check.limit),
                                applies.eq(check.applies),
                            ]
                m.next = "multiply"
            with m.State("multiply"):
                m.d.sync += [multiplicand.eq(Cat(0, multiplicand)), count.eq(count[1:])]
                with m.If(count[0]):
                    m.d.sync += total.eq(total + multiplicand)
                with m.If(count == 0):
                    m.next = "compare"
            with m.State("compare"):
                with m.Switch(step):
                    for number, register in enumerate(registers.values()):
                        with m.Case(number):
                            m.d.sync += register.eq(total)
                m.next = "judge"
            with m.State("judge"):
                m.d.sync += step.eq(step + 1)
                m.next = "operands"
                with m.If(refused | (step == len(steps) - 1)):
                    m.d.comb += [self.ends.eq(1), self.reason.eq(Mux(refused, meant, Reason.NONE))]
                    m.next = "idle"
