"""A core with faults as an and-inverter graph, with a mutant's step beside the core on the same inputs.

Blocks are compared in the same way. Only differing logic is visited: a fault with a local effect takes milliseconds.

Memories and signed multipliers are cut. The result of a memory port or multiplier is a free word, shared by both runs
if their operands agree; written data must agree. This is sound: memories with equal writes have equal contents.
Products with 0 are 0, and so are the registers found by `always_zero`.
"""

from __future__ import annotations

import heapq
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..hw import yosys
from ..hw.verilog import Emitted
from .channels import valid_of
from .constants import always_zero
from .faults import PORT
from .graph import FALSE, TRUE, Graph
from .netlist_passes import OPEN_MEMORIES, OPEN_PRODUCTS

_GIVES = "_gives"

Pair = tuple[int, int]
"""Literals of the same bit in core and mutant."""


@dataclass
class _Part:
    """A cut memory port or multiplier: output numbers of its operands, input variables of its result."""

    given: list[int] = field(default_factory=list)
    gives: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class StepDifferences:
    """Differences after one step of both runs, as pairs of literals.

    `seen` holds differing outputs and memory writes, `state` differing next values, `after` their mutant literals by
    register.
    """

    seen: set[Pair]
    after: dict[int, int]
    state: set[Pair]


class CoreGraph:
    """Core with many faults, from `faults.mutants`; attribute `graph` holds all literals."""

    def __init__(self, design: Emitted) -> None:
        with tempfile.TemporaryDirectory(prefix="fabtune-step-") as name:
            folder = Path(name)
            _write_graph(design, folder)
            lines = iter((folder / "model.aag").read_text(encoding="utf-8").splitlines())
            names = (folder / "model.map").read_text(encoding="utf-8").splitlines()

        def numbers(count: int) -> list[tuple[int, ...]]:
            return [tuple(map(int, next(lines).split())) for _ in range(count)]

        _, inputs, latches, outputs, ands = map(int, next(lines).split()[1:])
        # from the file: input, register and gate variables, and the literals they depend on
        self._inputs = [literal // 2 for (literal,) in numbers(inputs)]
        self._next = {literal // 2: value for literal, value in numbers(latches)}
        self._outputs = [literal for (literal,) in numbers(outputs)]
        self._operands = {made // 2: (a, b) for made, a, b in numbers(ands)}
        self._name(design, names)
        self._zero = always_zero(self._next, self._operands, self._mutant)
        self._readers = self._read_by()
        self.graph = Graph()
        self._register = {literal: self.graph.leaf() for literal in self._next}
        self._at_leaf = {leaf >> 1: literal for literal, leaf in self._register.items()}
        # per step: core literals by file variable, built on demand
        self._core: list[dict[int, int]] = []
        self._others: dict[tuple[int, int], int] = {}
        # leaves of the mutant's second copies of registers
        self._second: dict[int, int] = {}

    def _name(self, design: Emitted, lines: list[str]) -> None:
        """Find cut parts, the fault selector input, and channel outputs."""
        wires = [line.split() for line in lines if line.startswith(("input ", "output "))]
        numbers = {(kind, name): int(at) for kind, at, _, name in wires}
        seen_while = valid_of(design, {name: kind for kind, _, _, name in wires})
        self._parts: dict[str, _Part] = defaultdict(_Part)
        self._mutant, self._valid, self._part_of = {}, {}, {}
        for kind, at, bit, name in wires:
            part = name.rpartition("_")[0]
            if name == PORT:
                self._mutant[self._inputs[int(at)]] = int(bit)
            elif kind == "input" and name.endswith(_GIVES):
                self._parts[part].gives.append(self._inputs[int(at)])
            elif kind == "output" and ("input", part + _GIVES) in numbers:
                self._parts[part].given.append(int(at))
                self._part_of[int(at)] = part
            elif kind == "output" and name in seen_while:
                self._valid[int(at)] = numbers["output", seen_while[name]]

    def _read_by(self) -> dict[int, list[tuple[str, int]]]:
        """Readers of each variable: gates and registers by variable, outputs by number."""
        readers = defaultdict(list)
        for made, operands in self._operands.items():
            for operand in operands:
                readers[operand >> 1].append(("gate", made))
        for register, after in self._next.items():
            readers[after >> 1].append(("register", register))
        for at, output in enumerate(self._outputs):
            readers[output >> 1].append(("output", at))
        return readers

    def core(self, step: int, literal: int) -> int:
        """Core literal of a file literal in a step."""
        while len(self._core) <= step:
            self._core.append(dict.fromkeys((0, *self._mutant, *self._zero), FALSE))
        values, stack = self._core[step], [literal >> 1]
        while stack:
            variable = stack[-1]
            if variable in values:
                stack.pop()
            elif variable in self._operands:
                a, b = self._operands[variable]
                unknown = [operand >> 1 for operand in (a, b) if operand >> 1 not in values]
                stack += unknown
                if not unknown:
                    values[variable] = self.graph.both(values[a >> 1] ^ a & 1, values[b >> 1] ^ b & 1)
            elif variable in self._next:
                values[variable] = self.core(step - 1, self._next[variable]) if step else self._register[variable]
            else:
                values[variable] = self.graph.leaf()
        return values[literal >> 1] ^ literal & 1

    def steps(self, number: int) -> Iterator[StepDifferences]:
        """Step a mutant once from an arbitrary state, then step the core from both resulting states."""
        beside = self._fault(number)
        step = 0
        while True:
            differences = self._step(step, beside)
            yield differences
            beside, step = dict(differences.after), step + 1

    def miter(self, number: int, doubled: set[int], most: int | None = None) -> tuple[int, dict[int, int], set[int]]:
        """Run a mutant beside the core from two states that may differ in `doubled` registers.

        `most` limits the registers whose next values are included; by default all are.

        Returns
        -------
        int
            Literal, 1 where outputs or next values of other registers differ.
        dict of int to int
            Next-value literals by leaf variable, for `Graph.aiger`, of the nearest registers in the literal's cone;
            further registers are free.
        set of int
            Registers that may differ next.
        """
        for one in sorted(doubled - set(self._second)):
            self._second[one] = self.graph.leaf()
        found = self._step(0, self._fault(number) | {one: self._second[one] for one in doubled})
        others = {(self.core(0, self._next[one]), after) for one, after in found.after.items() if one not in doubled}
        output = self.graph.differ(found.seen | others)
        seconds = {self._second[one] >> 1: one for one in doubled}
        registers: dict[int, int] = {}
        known: set[int] = set()
        nearest = [output]
        while nearest and (most is None or len(registers) < most):
            news = {}
            for leaf in self.graph.leaves(nearest, known):
                if leaf in self._at_leaf:
                    news[leaf] = self.core(0, self._next[self._at_leaf[leaf]])
                elif leaf in seconds:
                    one = seconds[leaf]
                    news[leaf] = found.after[one] if one in found.after else self.core(0, self._next[one])
            registers |= news
            nearest = list(news.values())
        return output, registers, doubled | set(found.after)

    def _fault(self, number: int) -> dict[int, int]:
        """Differing literals of the fault selector input."""
        return {variable: TRUE for variable, bit in self._mutant.items() if number >> bit & 1}

    def _step(self, step: int, beside: dict[int, int]) -> StepDifferences:
        """Step the mutant beside the core; `beside` holds its differing literals."""
        values = dict(beside)
        gates: list[int] = []
        seen: set[int] = set()
        registers: set[int] = set()
        asked: list[int] = []

        def both_runs(literal: int) -> Pair:
            core = self.core(step, literal)
            return core, values[literal >> 1] ^ literal & 1 if literal >> 1 in values else core

        def changed(variable: int) -> None:
            for kind, reader in self._readers.get(variable, ()):
                if kind == "gate":
                    heapq.heappush(gates, reader)
                elif kind == "register":
                    registers.add(reader)
                elif reader in self._part_of:
                    asked.append(reader)
                else:
                    seen.add(reader)

        for node in beside:
            changed(node)
        while gates or asked:
            if gates:
                node = heapq.heappop(gates)
                (_, a), (_, b) = map(both_runs, self._operands[node])
                core, other = self.core(step, 2 * node), self.graph.both(a, b)
                if values.get(node, core) != other:
                    values[node] = other
                    changed(node)
                continue
            part = self._parts[self._part_of[asked.pop()]]
            differ = self.graph.differ(
                {pair for at in part.given if (pair := both_runs(self._outputs[at]))[0] != pair[1]}
            )
            for node in part.gives:
                core = self.core(step, 2 * node)
                other = self.graph.choose(differ, self._other(step, node), core)
                if values.get(node, core) != other:
                    values[node] = other
                    changed(node)
        shown = set()
        for at in seen:
            core, other = both_runs(self._outputs[at])
            if at in self._valid and core != other:
                core_valid, valid = both_runs(self._outputs[self._valid[at]])
                core, other = self.graph.both(core, core_valid), self.graph.both(other, valid)
            if core != other:
                shown.add((core, other))
        pairs = {node: both_runs(self._next[node]) for node in registers}
        pairs = {node: (core, other) for node, (core, other) in pairs.items() if core != other}
        return StepDifferences(shown, {node: other for node, (_, other) in pairs.items()}, set(pairs.values()))

    def _other(self, step: int, variable: int) -> int:
        """Leaf for a result bit of a cut part whose operands differ."""
        leaf = self._others.get((step, variable))
        if leaf is None:
            leaf = self._others[step, variable] = self.graph.leaf()
        return leaf


def _write_graph(design: Emitted, folder: Path) -> None:
    """Convert a core to an and-inverter graph, ``model.aag``, with input and output names in ``model.map``."""
    (folder / "design.il").write_text(design.rtlil, encoding="utf-8")
    yosys.run(
        [
            "read_rtlil design.il",
            f"hierarchy -top {design.top}",
            "memory_collect",
            "memory_nordff",
            "opt_clean",
            OPEN_MEMORIES,
            OPEN_PRODUCTS,
            "memory_map",
            "setundef -init -zero",
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
