"""Equivalence of a core or block and its mutants for all inputs, without comparing two complete designs.

Within some steps from any state: the mutant takes one step beside the core, then the core alone continues from both
states. If all outputs agree and the states agree after some steps, the mutant is equivalent by induction. With one
step, outputs and next state agree; more steps allow differences in irrelevant registers, such as the address of a
disabled write. A decision takes milliseconds. The condition is sufficient only: a mutant that differs only in
unreachable states is not recognised.

Within some registers from reset: the mutant runs beside the core, with second copies of the few registers that the
fault changes, directly or through others. If outputs and all other registers never differ, the mutant is equivalent.
Register sets are tried when the difference spreads to more than twice as many registers: a whole delay line or counter
rather than a part of it. The prover first includes the nearest registers and frees all others; then the registers that
ABC's localization (`gla`) finds relevant in the first cycles. `core_graph` describes the cuts.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from threading import Lock

from ..hw.verilog import Emitted
from ..sim.formal.abc import run_abc
from ..sim.formal.localization import PART, WHOLE, localize
from ..sim.formal.prover import prove_output
from .core_graph import CoreGraph, Pair

CONFLICTS = 100_000
"""SAT conflict limit of the proof within steps."""
SECONDS = 20
"""Time limit of the same search: a few conflicts on a whole core can take minutes."""
STEPS = 8
"""Maximum of steps."""
MOST_DIFFERENT = 1000
"""Maximum of differing registers for either proof."""
NEAREST = 200
"""Registers included first, completed to full distance from the difference."""
PROOF_SECONDS = 10
"""Time limit of each search of the prover."""
CYCLES = 40
"""Cycles of the localization; more get slow, and whole commands take hundreds."""
LOCALIZATION_SECONDS = 20
"""Time limit of the localization."""
_EQUIVALENT = "UNSATISFIABLE"


class StepEquivalence:
    """Core or block with many faults, from `faults.mutants`; `equivalent` compares a fault with none."""

    def __init__(self, design: Emitted) -> None:
        self._core = CoreGraph(design)
        self._building = Lock()  # several faults are judged in parallel on a shared graph

    def equivalent(self, number: int) -> str:
        """Method of the equivalence proof of a fault, numbered from 1; "" without proof."""
        return self.within_steps(number) or self.within_registers(number)

    def within_steps(self, number: int) -> str:
        """Only the proof within steps, see `equivalent`."""
        seen: set[Pair] = set()
        steps = self._core.steps(number)
        for step in range(1, STEPS + 1):
            with self._building:
                differences = next(steps)
            seen |= differences.seen
            if len(seen) + len(differences.state) > MOST_DIFFERENT:
                break
            if self._never(seen | differences.state):
                return f"{step}-step induction"
            if not self._never(seen):
                break
        return ""

    def _never(self, pairs: set[Pair]) -> bool:
        """True if no state and inputs exist for which a pair of literals differs."""
        if not pairs:
            return True
        with self._building:
            graph = self._core.graph
            miter = graph.aiger(graph.differ(pairs))
        with tempfile.TemporaryDirectory(prefix="fabtune-step-") as name:
            folder = Path(name)
            (folder / "miter.aig").write_bytes(miter)
            return _EQUIVALENT in run_abc(folder, ["read_aiger miter.aig", "strash", f"sat -C {CONFLICTS}"], SECONDS)

    def within_registers(self, number: int) -> str:
        """Only the proof within registers, see `equivalent`."""
        doubled: set[int] = set()
        while True:
            with self._building:
                output, registers, different = self._core.miter(number, doubled, NEAREST)
                near = self._core.graph.aiger(output, registers)
            if len(different) > 2 * len(doubled) or different == doubled:
                engine = _proved(near) or self._proved_in_a_part(number, doubled)
                if engine:
                    return f"{engine}, {len(doubled)} registers doubled"
            if different == doubled or len(different) > MOST_DIFFERENT:
                return ""
            doubled = different

    def _proved_in_a_part(self, number: int, doubled: set[int]) -> str:
        with self._building:
            output, registers, _ = self._core.miter(number, doubled)
            whole = self._core.graph.aiger(output, registers)
        engine = _proved(whole, localized=True)
        return f"{engine} in a part of the core" if engine else ""


def _proved(model: bytes, localized: bool = False) -> str:
    """Method of the proof that a model's output is never 1, on the whole model or after localization; ""
    without proof.
    """
    with tempfile.TemporaryDirectory(prefix="fabtune-step-") as name:
        folder = Path(name)
        (folder / (WHOLE if localized else PART)).write_bytes(model)
        if localized and not localize(folder, CYCLES, LOCALIZATION_SECONDS):
            return ""
        proof = prove_output(folder, 0, "difference", PROOF_SECONDS)
        return proof.engine if proof.status == "proved" else ""
