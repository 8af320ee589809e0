"""Registers of an and-inverter graph that are 0 in every run, by a ternary simulation: inputs may be anything.

It takes seconds for a whole core, and tells bits of addresses that no stage uses, columns of memories to which no 1 is
written, and what depends on them alone. What is 0 only because of how several bits belong together it does not tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

_ZERO, _ONE = 1, 2
"""Values that a variable may have in some cycle of some run: one of them, or both."""
_BOTH = _ZERO | _ONE


def always_zero(
    registers: Mapping[int, int], gates: Mapping[int, tuple[int, int]], held: Iterable[int] = ()
) -> set[int]:
    """Find registers that are never 1.

    Parameters
    ----------
    registers : mapping of int to int
        Literals of next values by the variables of registers, which begin at 0.
    gates : mapping of int to pair of int
        Literals of operands by the variables of and-gates, of which each comes behind those on which it depends.
    held : iterable of int
        Variables of inputs that are 0. All other variables are inputs that may be anything.
    """
    readers = defaultdict(list)
    for gate, operands in gates.items():
        for operand in operands:
            readers[operand >> 1].append(gate)
    registers_of = defaultdict(list)
    for register, after in registers.items():
        registers_of[after >> 1].append(register)
    may = dict.fromkeys((0, *held, *registers), _ZERO)

    def of(literal: int) -> int:
        values = may.get(literal >> 1, _BOTH)
        return values if not literal & 1 or values == _BOTH else values ^ _BOTH

    for gate, (a, b) in gates.items():
        may[gate] = of(a) & of(b) & _ONE | (of(a) | of(b)) & _ZERO
    changed = [register for register, after in registers.items() if of(after) & _ONE]
    while changed:
        one = changed.pop()
        if one in registers:
            if may[one] == _BOTH:
                continue
            may[one] = _BOTH
        else:
            a, b = gates[one]
            values = may[one] | of(a) & of(b) & _ONE | (of(a) | of(b)) & _ZERO
            if values == may[one]:
                continue
            may[one] = values
        changed += readers[one]
        changed += (register for register in registers_of[one] if of(registers[register]) & _ONE)
    return {register for register in registers if may[register] == _ZERO}
