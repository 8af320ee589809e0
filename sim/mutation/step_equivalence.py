"""Equivalence of a core and its mutants within some steps, which needs no search over time.

From any state, with any inputs, the mutant makes a step beside the core; then the core alone goes on from both states.
Where outputs are the same all the while, and the states are the same after some steps, the mutant is equivalent: by
induction, its state is at any time one that the core cannot tell from its own. With one step, outputs and next state
are the same; more allow a difference in registers that do not matter, such as the address of a write that is not
enabled. It is decided in seconds even for a whole core. It is not necessary: a mutant that differs only in states which
are never reached is not found equivalent. Memories and signed multipliers are left out of both, as in `equivalence`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from ...hw import yosys
from ...hw.verilog import Emitted
from ..formal.abc import run_abc
from .faults import PORT

CONFLICTS = 100_000
"""Conflicts after which the search for a difference is given up."""
SECONDS = 20
"""Seconds after which it is given up, too: a few conflicts of a whole core can take minutes."""
STEPS = 3
"""Steps that are tried."""
_EQUIVALENT = "UNSATISFIABLE"

_And = tuple[int, int, int]
"""A gate: its variable, and the literals of its operands. A literal is twice a variable, plus 1 where inverted."""


class StepEquivalence:
    """Core with many faults as an and-inverter graph, in which `equivalent` compares one with none.

    Parameters
    ----------
    design : Emitted
        The core with faults, from `faults.mutants`.
    """

    def __init__(self, design: Emitted) -> None:
        with tempfile.TemporaryDirectory(prefix="fabtune-step-") as name:
            folder = Path(name)
            _write_graph(design, folder)
            lines = iter((folder / "model.aag").read_text(encoding="utf-8").splitlines())
            names = (folder / "model.map").read_text(encoding="utf-8").splitlines()

        def numbers(count: int) -> list[tuple[int, ...]]:
            return [tuple(map(int, next(lines).split())) for _ in range(count)]

        _, inputs, latches, outputs, ands = map(int, next(lines).split()[1:])
        self._inputs = [one // 2 for (one,) in numbers(inputs)]
        after = {one // 2: value for one, value in numbers(latches)}
        self._outputs = [one for (one,) in numbers(outputs)]
        self._ands: list[_And] = [(made // 2, a, b) for made, a, b in numbers(ands)]
        seen = self._seen(after)
        self._ands = [one for one in self._ands if one[0] in seen]
        self._registers = [one for one in after if one in seen]
        self._next = [after[one] for one in self._registers]
        told = (line.split() for line in names if line.startswith("input ") and line.endswith(f" {PORT}"))
        self._mutant = {int(bit): self._inputs[int(at)] for _, at, bit, _ in told}
        self._graph = _Graph(STEPS * inputs + len(self._registers))
        # literals of the registers before each step, behind which are those after the last, and of its outputs
        self._states = [[2 * (STEPS * inputs + at) for at in range(1, len(self._registers) + 1)]]
        self._given: list[list[int]] = []
        for step in range(STEPS):
            given, state = self._step(self._graph, 0, step, self._states[-1])
            self._given.append(given)
            self._states.append(state)

    def _seen(self, after: dict[int, int]) -> set[int]:
        """Find the variables on which outputs depend, at once or through registers.

        Parameters
        ----------
        after : dict of int to int
            For each register the literal of its next value.
        """
        operands = {made: (a, b) for made, a, b in self._ands}
        seen: set[int] = set()
        left = [one >> 1 for one in self._outputs]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left += (operand >> 1 for operand in operands.get(one, (after.get(one, 0),)))
        return seen

    def equivalent(self, number: int) -> int:
        """Tell whether a mutant is equivalent: the steps within which it is, 0 where it is not found to be.

        Parameters
        ----------
        number : int
            Number of the fault, from 1.
        """
        graph = _Graph(self._graph.leaves, self._graph)
        different: set[tuple[int, int]] = set()
        state = self._states[0]
        for step in range(STEPS):
            given, state = self._step(graph, 0 if step else number, step, state)
            different |= _different(self._given[step], given)
            pairs = different | _different(self._states[step + 1], state)
            if not pairs or self._never(graph, pairs):
                return step + 1
            if different and not self._never(graph, different):
                return 0
        return 0

    def _never(self, graph: _Graph, pairs: Iterable[tuple[int, int]]) -> bool:
        """Tell whether no state and no inputs are found in which the literals of a pair differ."""
        with tempfile.TemporaryDirectory(prefix="fabtune-step-") as name:
            folder = Path(name)
            (folder / "miter.aig").write_bytes(graph.miter(pairs))
            return _EQUIVALENT in run_abc(folder, ["read_aiger miter.aig", "strash", f"sat -C {CONFLICTS}"], SECONDS)

    def _step(self, graph: _Graph, number: int, step: int, state: list[int]) -> tuple[list[int], list[int]]:
        """Build a step with a fault in a graph: literals of outputs and next state."""
        values = [0] * (1 + len(self._inputs) + len(self._registers) + len(self._ands))
        for at, variable in enumerate(self._inputs, 1 + step * len(self._inputs)):
            values[variable] = 2 * at
        for bit, variable in self._mutant.items():
            values[variable] = number >> bit & 1
        for variable, literal in zip(self._registers, state, strict=True):
            values[variable] = literal
        both = graph.both
        for variable, a, b in self._ands:
            values[variable] = both(values[a >> 1] ^ a & 1, values[b >> 1] ^ b & 1)
        outputs, after = ([values[one >> 1] ^ one & 1 for one in found] for found in (self._outputs, self._next))
        return outputs, after


def _different(some: list[int], others: list[int]) -> set[tuple[int, int]]:
    """Pairs of literals at the same place that are not the same."""
    return {(a, b) for a, b in zip(some, others, strict=True) if a != b}


class _Graph:
    """And-inverter graph without two gates of the same operands.

    Parameters
    ----------
    leaves : int
        Variables before the gates: inputs and registers.
    below : _Graph, optional
        Graph whose gates this one has, too.

    Attributes
    ----------
    leaves : int
        As given.
    """

    def __init__(self, leaves: int, below: _Graph | None = None) -> None:
        self.leaves, self._below = leaves, below
        self._known: dict[tuple[int, int], int] = below._known if below else {}
        self._own: dict[tuple[int, int], int] = {} if below else self._known
        self._first = 1 + leaves + (len(below._gates) if below else 0)
        self._gates: list[tuple[int, int]] = []

    def both(self, a: int, b: int) -> int:
        """Make a gate: the literal of ``a & b``."""
        if a > b:
            a, b = b, a
        if a == 0 or a ^ b == 1:
            return 0
        if a in (1, b):
            return b
        made = self._known.get((a, b)) or self._own.get((a, b))
        if made is None:
            made = self._own[a, b] = 2 * (self._first + len(self._gates))
            self._gates.append((a, b))
        return made

    def miter(self, pairs: Iterable[tuple[int, int]]) -> bytes:
        """Write, in AIGER's binary form, a graph whose output is 1 where the literals of a pair differ.

        It has the gates on which they depend.
        """
        same = 1
        for a, b in pairs:
            same = self.both(same, self.both(self.both(a, b ^ 1) ^ 1, self.both(a ^ 1, b) ^ 1))
        gates = self._cone(same >> 1)
        renumbered = {0: 0}
        read = {same >> 1} | {one >> 1 for _, operands in gates for one in operands}
        leaves = sorted(read - {made for made, _ in gates} - {0})
        renumbered |= {one: at for at, one in enumerate([*leaves, *(made for made, _ in gates)], 1)}

        def new(literal: int) -> int:
            return 2 * renumbered[literal >> 1] | literal & 1

        body = bytearray()
        for made, operands in gates:
            low, high = sorted(map(new, operands))
            for difference in (2 * renumbered[made] - high, high - low):
                body += _variable_length(difference)
        count = len(leaves) + len(gates)
        return f"aig {count} {len(leaves)} 0 1 {len(gates)}\n{new(same) ^ 1}\n".encode() + bytes(body)

    def _cone(self, variable: int) -> list[tuple[int, tuple[int, int]]]:
        """Gates on which a variable depends, each behind its operands."""
        found: dict[int, tuple[int, int]] = {}
        left = [variable]
        while left:
            one = left.pop()
            if one > self.leaves and one not in found:
                found[one] = self._gate(one)
                left += (operand >> 1 for operand in found[one])
        return sorted(found.items())

    def _gate(self, variable: int) -> tuple[int, int]:
        if variable >= self._first or not self._below:
            return self._gates[variable - self._first]
        return self._below._gate(variable)


def _variable_length(number: int) -> bytes:
    """Write a number in groups of seven bits, the lowest first, all but the last with the eighth bit set."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def _write_graph(design: Emitted, folder: Path) -> None:
    """Write a core as an and-inverter graph: ``model.aag``, with the names of inputs in ``model.map``."""
    (folder / "design.il").write_text(design.rtlil, encoding="utf-8")
    yosys.run(
        [
            "read_rtlil design.il",
            f"hierarchy -top {design.top}",
            "memory_collect",
            "memory_nordff",
            "opt_clean",
            yosys.OPEN_MEMORIES,
            yosys.OPEN_PRODUCTS,
            "setundef -zero -undriven",
            "opt_clean",
            "async2sync",
            "dffunmap",
            "techmap",
            "opt_clean",
            "aigmap",
            "setundef -zero",
            "opt_clean",
            "write_aiger -ascii -zinit -no-startoffset -map model.map model.aag",
        ],
        folder,
    )
