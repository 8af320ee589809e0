"""Instruction checker: all checks in sequence, on one serial multiplier and one comparator."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ....golden.stream.machine.limits import Counts, Derived, LimitCheck, Limits, Reason, factors
from ....golden.stream.machine.program_sequencer import HEADER_FIELDS, ProgramSequencerSpec
from ...ports import layout
from ...primitives.pipeline import delayed
from ...primitives.registers import register

CHECKED = ("capacity", "words", "behind", "stream_beats", "beats")
"""Counts in a program's header that the checks use."""
_OPERANDS = ("base", "factor", "count", "limit", "applies")
"""Operands of a check, selected at each step."""


class InstructionChecker(wiring.Component):
    """Check an instruction against `golden.stream.machine.limits.Limits`.

    A check takes 4 cycles, plus a cycle for each bit of its count. An instruction takes some hundreds of cycles.

    Attributes
    ----------
    instruction : In, the fields of an instruction
        Instruction, stable from two cycles before `begins` until `ends`.
    capacity, words, behind, stream_beats, beats : In
        Counts from the program header, stable like `instruction`.
    begins : In, 1
        Start; one cycle.
    ends : Out, 1
        `reason` is valid; one cycle.
    reason : Out, Reason
        With `ends`: reason of the first failed check, or `Reason.NONE`.
    """

    def __init__(self, spec: ProgramSequencerSpec) -> None:
        self.spec = spec
        ports = {"instruction": In(layout(spec.streams()["o"]))}
        ports |= {name: In(unsigned(HEADER_FIELDS[name])) for name in CHECKED}
        super().__init__(ports | {"begins": In(1), "ends": Out(1), "reason": Out(Reason)})

    def elaborate(self, platform: object) -> Module:
        m, instruction = Module(), self.instruction
        remainder = Signal.like(instruction.heads, name="remainder", reset_less=True)
        steps, products = self._steps(m, remainder)
        step = Signal(range(len(steps) + 1), reset_less=True)
        choices, following = self._operands(m, steps)
        base, factor, *others = following
        count, limit, applies = (
            Signal.like(operand, name=name, reset_less=True)
            for name, operand in zip(_OPERANDS[2:], others, strict=True)
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
                m.d.sync += [step.eq(0), *(choice.eq(0) for choice, _ in choices), remainder.eq(instruction.heads)]
                with m.If(self.begins):
                    m.next = "divide"
            with m.State("divide"):
                with m.If((instruction.key_heads != 0) & (remainder >= instruction.key_heads)):
                    m.d.sync += remainder.eq(remainder - instruction.key_heads)
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

    def _operands(self, m: Module, steps: list[LimitCheck]) -> tuple[list[tuple[Signal, list[int]]], list[Signal]]:
        """Create a register for each operand of the next check, and a select register with its value at each step.

        Most operands are one of a few constants, so the separate multiplexers are small.
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

    def _steps(self, m: Module, remainder: Signal) -> tuple[list[LimitCheck], list[Signal]]:
        """Steps in order, and the product registers. The first steps compute products, as checks that never fail."""
        instruction, size = self.instruction, self.spec.size
        products = factors(instruction, size)
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
        made = [LimitCheck(Reason.NONE, str, 0, 0, *pair) for pair in products.values()]
        # timing: `applies` is slow, but stable long before its check, so it is registered
        checks = [
            check._replace(applies=register(m, "applies", Value.cast(check.applies)))
            for check in limits.checks(instruction, Derived(**registers, remainder=remainder))
        ]
        return [*made, *checks], [*registers.values()]


def _distinct(operands: Sequence[Value | int]) -> tuple[list[Value], list[int]]:
    """Distinct operands, and each step's index of its operand; most operands are equal constants."""
    keys = [(operand, None) if isinstance(operand, int) else (None, id(operand)) for operand in operands]
    distinct = dict(zip(keys, operands, strict=True))
    numbers = {key: number for number, key in enumerate(distinct)}
    return [*map(Value.cast, distinct.values())], [numbers[key] for key in keys]
