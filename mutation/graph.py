"""And-inverter graph with shared gates, exported to ABC as AIGER.

A variable is a leaf (input or register) or a gate. A literal is twice a variable, plus 1 if inverted; 0 and 1 are
constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

FALSE, TRUE = 0, 1


class Graph:
    """Graph without duplicate gates; an operand's variable is lower than its gate's."""

    def __init__(self) -> None:
        # operand literals by variable; None for a leaf
        self._operands: list[tuple[int, int] | None] = [None]
        self._known: dict[tuple[int, int], int] = {}

    def leaf(self) -> int:
        """Literal of a new leaf."""
        self._operands.append(None)
        return 2 * len(self._operands) - 2

    def both(self, a: int, b: int) -> int:
        """Literal of ``a & b``."""
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
        """Literal of ``which ? a : b``."""
        return self.both(self.both(which, a) ^ 1, self.both(which ^ 1, b) ^ 1) ^ 1

    def differ(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Literal, 1 where any pair differs."""
        same = TRUE
        for a, b in sorted(pairs):
            same = self.both(same, self.choose(a, b, b ^ 1))
        return same ^ 1

    def leaves(self, literals: Iterable[int], known: set[int]) -> list[int]:
        """Leaves in the cone of literals, ordered, except `known` variables; visited variables are added to `known`."""
        leaves, stack = [], [variable >> 1 for variable in literals]
        while stack:
            variable = stack.pop()
            if variable and variable not in known:
                known.add(variable)
                operands = self._operands[variable]
                if operands:
                    stack += (operand >> 1 for operand in operands)
                else:
                    leaves.append(variable)
        return sorted(leaves)

    def aiger(self, output: int, registers: Mapping[int, int] | None = None) -> bytes:
        """Cone of literal `output` in binary AIGER.

        `registers` maps leaf variables to next-value literals: these leaves become registers that start at 0. All other
        leaves are inputs.
        """
        after = registers or {}
        gates, leaves = self._cone(output, after)
        inputs, latches = ([variable for variable in leaves if (variable in after) == kept] for kept in (False, True))
        new = {variable: at for at, variable in enumerate([0, *inputs, *latches, *gates])}

        def literal(old: int) -> int:
            return 2 * new[old >> 1] | old & 1

        count = len(inputs) + len(latches) + len(gates)
        head = [f"aig {count} {len(inputs)} {len(latches)} 1 {len(gates)}"]
        head += [str(literal(variable)) for variable in (*(after[latch] for latch in latches), output)]
        body = bytearray()
        for gate in gates:
            low, high = sorted(map(literal, self._operands[gate] or ()))
            for difference in (2 * new[gate] - high, high - low):
                body += _variable_length(difference)
        return "\n".join([*head, ""]).encode() + bytes(body)

    def _cone(self, output: int, after: Mapping[int, int]) -> tuple[list[int], list[int]]:
        """Gates and leaves in the sequential cone of a literal, each ordered."""
        visited, stack = {0}, [output >> 1]
        while stack:
            node = stack.pop()
            if node not in visited:
                visited.add(node)
                stack += (operand >> 1 for operand in self._operands[node] or (after.get(node, FALSE),))
        every = sorted(visited - {0})
        return [node for node in every if self._operands[node]], [node for node in every if not self._operands[node]]


def _variable_length(number: int) -> bytes:
    """AIGER number: groups of 7 bits, lowest first, bit 7 set on all but the last."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])
