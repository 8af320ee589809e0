"""Equivalence of a core or block and its mutants for all inputs, without a comparison of two whole ones.

Within some steps from any state: the mutant makes a step beside the core; then the core alone goes on from both
states. Where outputs are the same all the while, and the states are the same after some steps, the mutant is
equivalent: by induction, its state is at any time one that the core cannot tell from its own. With one step, outputs
and next state are the same; more allow a difference in registers that do not matter, such as the address of a write
that is not enabled. That is decided in milliseconds. It is not necessary: a mutant that differs only in states which
are never reached is not found equivalent.

Within some registers from the reset: the mutant runs beside the core, and has a second copy of the few registers that
the fault changes at once, or through others. Where outputs and all other registers never differ, the mutant is
equivalent. Tried are sets of registers from which the difference could only go on to more than as many again: a delay
line or the bits of a counter, and not a part of them. The prover first knows the nearest registers on which that
depends and takes the others to have any value; then those that ABC's localization (`gla`) finds to matter in the first
cycles, wherever they are in the core. See `core_graph` for what is left out.
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
"""Conflicts after which the search for a difference within steps is given up."""
SECONDS = 20
"""Seconds after which it is given up, too: a few conflicts of a whole core can take minutes."""
STEPS = 8
"""Steps that are tried."""
MOST_DIFFERENT = 1000
"""Registers that may differ: where there are more, neither proof goes on."""
NEAREST = 200
"""Registers that the prover knows at first; it finishes the distance from the difference at which it is."""
PROOF_SECONDS = 10
"""Seconds for each of its searches."""
CYCLES = 40
"""Cycles in which localization finds what matters: in more it gets slow, and whole commands take hundreds."""
LOCALIZATION_SECONDS = 20
"""Seconds for it."""
_EQUIVALENT = "UNSATISFIABLE"


class StepEquivalence:
    """Core or block with many faults, in which `equivalent` compares one with none.

    Parameters
    ----------
    design : Emitted
        It with its faults, from `faults.mutants`.
    """

    def __init__(self, design: Emitted) -> None:
        self._core = CoreGraph(design)
        self._building = Lock()  # several faults are judged at a time, in one graph

    def equivalent(self, number: int) -> str:
        """Tell whether a mutant is equivalent: the method of the proof, nothing where there is none.

        Parameters
        ----------
        number : int
            Number of the fault, from 1.
        """
        return self.within_steps(number) or self.within_registers(number)

    def within_steps(self, number: int) -> str:
        """Try the proof within steps alone, see `equivalent`."""
        seen: set[Pair] = set()
        steps = self._core.steps(number)
        for step in range(1, STEPS + 1):
            with self._building:
                found = next(steps)
            seen |= found.seen
            if len(seen) + len(found.state) > MOST_DIFFERENT:
                break
            if self._never(seen | found.state):
                return f"{step}-step induction"
            if not self._never(seen):
                break
        return ""

    def _never(self, pairs: set[Pair]) -> bool:
        """Tell whether no state and no inputs are found in which the literals of a pair differ."""
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
        """Try the proof within registers alone, see `equivalent`."""
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
    """Tell how it is proved that a model's output is never 1, of all of it or of the part that matters."""
    with tempfile.TemporaryDirectory(prefix="fabtune-step-") as name:
        folder = Path(name)
        (folder / (WHOLE if localized else PART)).write_bytes(model)
        if localized and not localize(folder, CYCLES, LOCALIZATION_SECONDS):
            return ""
        proof = prove_output(folder, 0, "difference", PROOF_SECONDS)
        return proof.engine if proof.status == "proved" else ""
