"""Instruction checker: the list of checks one after the other, which share a serial multiplier and a comparator."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.machine.limits import Check, Counts, Derived, Limits, Reason, factors
from ....golden.stream.machine.program_sequencer import COUNTS, ProgramSequencerSpec
from ...ports import layout
from ...primitives.pipeline import delayed
from ...primitives.registers import register

CHECKED = ("capacity", "words", "behind", "stream_beats", "beats")
"""Counts of a program against which its instructions are checked."""
_OPERANDS = ("base", "factor", "count", "limit", "applies")
"""Parts of a check that are chosen step by step."""


class InstructionChecker(wiring.Component):
    """Check an instruction: `golden.stream.machine.limits.Limits`.

    A check takes as many cycles as its count has bits, and 4. So an instruction takes some hundreds.

    Attributes
    ----------
    instruction : In, the fields of an instruction
        It stays from two cycles before `begins` until `ends`.
    capacity, words, behind, stream_beats, beats : In
        What its program says; they stay as well.
    begins : In, 1
        One cycle.
    ends : Out, 1
        All checks are passed, or one is not; one cycle.
    reason : Out, Reason
        The first check that refuses, `Reason.NONE` where none does; in the cycle of `ends`.
    """

    def __init__(self, spec: ProgramSequencerSpec) -> None:
        self.spec = spec
        ports = {"instruction": In(layout(spec.streams()["o"]))}
        ports |= {name: In(unsigned(COUNTS[name])) for name in CHECKED}
        super().__init__(ports | {"begins": In(1), "ends": Out(1), "reason": Out(Reason)})

    def elaborate(self, platform: object) -> Module:
        m, one = Module(), self.instruction
        remainder = Signal.like(one.heads, name="remainder", reset_less=True)
        steps, products = self._steps(m, remainder)
        step = Signal(range(len(steps) + 1), reset_less=True)
        choices, following = self._operands(m, steps)
        base, factor, *others = following
        count, limit, applies = (
            Signal.like(one, name=name, reset_less=True) for name, one in zip(_OPERANDS[2:], others, strict=True)
        )
        total_bits = max(len(factor) + len(count), len(base)) + 1
        total, multiplicand = Signal(total_bits, reset_less=True), Signal(total_bits, reset_less=True)
        equal, meant = Signal(), Signal(Reason)
        with m.Switch(step):
            for number, check in enumerate(steps):
                with m.Case(number):
                    m.d.comb += [meant.eq(check.reason), equal.eq(int(check.equal))]
        refused = Signal(reset_less=True)
        m.d.sync += refused.eq(applies & Mux(equal, total != limit, total > limit))
        with m.FSM(name="checks"):
            with m.State("idle"):
                m.d.sync += [step.eq(0), *(choice.eq(0) for choice, _ in choices), remainder.eq(one.heads)]
                with m.If(self.begins):
                    m.next = "divide"
            with m.State("divide"):
                with m.If((one.key_heads != 0) & (remainder >= one.key_heads)):
                    m.d.sync += remainder.eq(remainder - one.key_heads)
                with m.Else():
                    m.next = "operands"
            with m.State("operands"):
                into = total, multiplicand, count, limit, applies
                m.d.sync += [operand.eq(value) for operand, value in zip(into, following, strict=True)]
                m.next = "multiply"
            with m.State("multiply"):
                m.d.sync += [multiplicand.eq(Cat(0, multiplicand)), count.eq(count[1:])]
                with m.If(count[0]):
                    m.d.sync += total.eq(total + multiplicand)
                with m.If(count == 0):
                    m.next = "compare"
            with m.State("compare"):
                with m.Switch(step):
                    for number, product in enumerate(products):
                        with m.Case(number):
                            m.d.sync += product.eq(total)
                with m.Switch(step):
                    for number in range(1, len(steps)):
                        with m.Case(number - 1):
                            m.d.sync += [choice.eq(numbers[number]) for choice, numbers in choices]
                m.next = "judge"
            with m.State("judge"):
                m.d.sync += step.eq(step + 1)
                m.next = "operands"
                with m.If(refused | (step == len(steps) - 1)):
                    m.d.comb += [self.ends.eq(1), self.reason.eq(Mux(refused, meant, Reason.NONE))]
                    m.next = "idle"
        return m

    def _operands(self, m: Module, steps: list[Check]) -> tuple[list[tuple[Signal, list[int]]], list[Signal]]:
        """Make a register for each operand of the next check, and one that chooses it, with its contents for each step.

        As each has its own, and most operands are among a few constants, what chooses is small.
        """
        choices, following = [], []
        for name in _OPERANDS:
            values, numbers = _distinct([getattr(check, name) for check in steps])
            choice = Signal(range(len(values)), name=f"choice_of_{name}", reset_less=True)
            operand = Signal(max(map(len, values)), name=f"next_{name}", reset_less=True)
            with m.Switch(choice):
                for number, value in enumerate(values):
                    with m.Case(number):
                        m.d.sync += operand.eq(value)
            choices.append((choice, numbers))
            following.append(operand)
        return choices, following

    def _steps(self, m: Module, remainder: Signal) -> tuple[list[Check], list[Signal]]:
        """Steps in their order: first products, which are checks that nothing refuses, and their registers."""
        one, size = self.instruction, self.spec.size
        products = factors(one, size)
        widths = {name: sum(len(Value.cast(factor)) for factor in pair) for name, pair in products.items()}
        registers = {name: Signal(width, name=name, reset_less=True) for name, width in widths.items()}
        counts = Counts(*(getattr(self, name) for name in CHECKED))
        limits = Limits(
            size,
            counts,
            Mux,
            lambda term: delayed(m, Value.cast(term), 1, "term", reset_less=True),
            self.spec.features,
        )
        made = [Check(Reason.NONE, str, 0, 0, *pair) for pair in products.values()]
        # what applies to an instruction is known long before its check, and some of it is found late
        checks = [
            check._replace(applies=register(m, "applies", Value.cast(check.applies)))
            for check in limits.checks(one, Derived(**registers, remainder=remainder))
        ]
        return [*made, *checks], [*registers.values()]


def _distinct(operands: Sequence[Value | int]) -> tuple[list[Value], list[int]]:
    """List operands, each once, and of each step the number of its own: most are constants, which are alike."""
    keys = [(operand, None) if isinstance(operand, int) else (None, id(operand)) for operand in operands]
    distinct = dict(zip(keys, operands, strict=True))
    numbers = {key: number for number, key in enumerate(distinct)}
    return [*map(Value.cast, distinct.values())], [numbers[key] for key in keys]
