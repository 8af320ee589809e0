"""And-inverter graph: gates are made where they are not there yet, and a part of it is written as a file for ABC.

A variable is a leaf, an input or a register, or a gate. A literal is twice a variable, plus 1 where it is inverted; 0
and 1 are constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

FALSE, TRUE = 0, 1


class Graph:
    """Graph without two gates of the same operands, in which an operand's variable is lower than its gate's."""

    def __init__(self) -> None:
        # literals of the operands by variable; a leaf has none
        self._operands: list[tuple[int, int] | None] = [None]
        self._known: dict[tuple[int, int], int] = {}

    def leaf(self) -> int:
        """Make a leaf: its literal."""
        self._operands.append(None)
        return 2 * len(self._operands) - 2

    def both(self, a: int, b: int) -> int:
        """Make a gate: the literal of ``a & b``."""
        if a > b:
            a, b = b, a
        if a == FALSE or a ^ b == 1:
            return FALSE
        if a in (TRUE, b):
            return b
        made = self._known.get((a, b))
        if made is None:
            made = self._known[a, b] = 2 * len(self._operands)
            self._operands.append((a, b))
        return made

    def choose(self, which: int, a: int, b: int) -> int:
        """Make the literal of ``which ? a : b``."""
        return self.both(self.both(which, a) ^ 1, self.both(which ^ 1, b) ^ 1) ^ 1

    def differ(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Make a literal that is 1 where those of a pair differ."""
        same = TRUE
        for a, b in sorted(pairs):
            same = self.both(same, self.choose(a, b, b ^ 1))
        return same ^ 1

    def leaves(self, literals: Iterable[int], known: set[int]) -> list[int]:
        """Find the leaves on which literals depend, in order, without what is known; what is found is added to that."""
        found, left = [], [one >> 1 for one in literals]
        while left:
            one = left.pop()
            if one and one not in known:
                known.add(one)
                operands = self._operands[one]
                if operands:
                    left += (operand >> 1 for operand in operands)
                else:
                    found.append(one)
        return sorted(found)

    def aiger(self, output: int, registers: Mapping[int, int] | None = None) -> bytes:
        """Write, in AIGER's binary form, what a literal depends on.

        Parameters
        ----------
        output : int
            The literal, which becomes the output.
        registers : mapping of int to int
            Literals of next values by a leaf's variable: these leaves are registers, which begin at 0. By default all
            leaves are inputs.
        """
        after = registers or {}
        gates, leaves = self._cone(output, after)
        inputs, latches = ([one for one in leaves if (one in after) == kept] for kept in (False, True))
        new = {one: at for at, one in enumerate([0, *inputs, *latches, *gates])}

        def literal(old: int) -> int:
            return 2 * new[old >> 1] | old & 1

        count = len(inputs) + len(latches) + len(gates)
        head = [f"aig {count} {len(inputs)} {len(latches)} 1 {len(gates)}"]
        head += [str(literal(one)) for one in (*(after[latch] for latch in latches), output)]
        body = bytearray()
        for gate in gates:
            low, high = sorted(map(literal, self._operands[gate] or ()))
            for difference in (2 * new[gate] - high, high - low):
                body += _variable_length(difference)
        return "\n".join([*head, ""]).encode() + bytes(body)

    def _cone(self, output: int, after: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Gates and leaves on which a literal depends, at once or through registers, each in order."""
        found, left = {0}, [output >> 1]
        while left:
            one = left.pop()
            if one not in found:
                found.add(one)
                left += (operand >> 1 for operand in self._operands[one] or (after.get(one, FALSE),))
        every = sorted(found - {0})
        return [one for one in every if self._operands[one]], [one for one in every if not self._operands[one]]


def _variable_length(number: int) -> bytes:
    """Write a number in groups of seven bits, the lowest first, all but the last with the eighth bit set."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
