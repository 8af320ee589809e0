"""Registers of an and-inverter graph with constant value 0, by ternary simulation with free inputs.

Takes seconds for a whole core. Finds address bits without a user, memory columns without a written 1, and everything
derived from them. Relations between several bits are not found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

_ZERO, _ONE = 1, 2
"""Possible values of a variable over all cycles and runs, as a bit set."""
_BOTH = _ZERO | _ONE


def always_zero(
    registers: Mapping[int, int], gates: Mapping[int, tuple[int, int]], held: Iterable[int] = ()
) -> set[int]:
    """Registers that are never 1, by variable.

    `registers` maps a register's variable to its next-value literal; registers start at 0. `gates` maps a gate's
    variable to its operand literals, in topological order. Inputs in `held` are 0, all other inputs are free.
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
        variable = changed.pop()
        if variable in registers:
            if may[variable] == _BOTH:
                continue
            may[variable] = _BOTH
        else:
            a, b = gates[variable]
            values = may[variable] | of(a) & of(b) & _ONE | (of(a) | of(b)) & _ZERO
            if values == may[variable]:
                continue
            may[variable] = values
        changed += readers[variable]
        changed += (register for register in registers_of[variable] if of(registers[register]) & _ONE)
    return {register for register in registers if may[register] == _ZERO}
