"""Proof that a fault is never active: its bit always has the faulty value.

Until a fault first changes a bit, the mutant behaves as the original. If the original can never reach this point, the
mutant is equivalent. The proof needs only the original, reduced to the cone of one bit: it decides faults of counters
and flags whose last values are unreachable with the given parameters, where an equivalence proof stays open.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..hw import yosys
from ..sim.formal.checker import BROKEN
from ..sim.formal.prover import CUTS, TOP, prove_text
from .faults import CellFault, CellNetlist
from .netlist_passes import WATCH

_RULE = "active"
_ACTIVE_AT = {"const0": 1, "const1": 0, "cnot0": 0, "cnot1": 1}
"""Value of the bit, or of its control bit, at which the fault changes something."""


def never_active(made: CellNetlist, fault: CellFault, seconds: int) -> bool:
    """True if a proof is found that a fault never changes its bit, with free memory and multiplier results.

    `seconds` limits each search, see `prover.prove`.
    """
    if fault.mode not in _ACTIVE_AT:
        return False
    bit = fault.bit if fault.control < 0 else fault.control
    with tempfile.TemporaryDirectory(prefix="fabtune-activation-") as name:
        folder = Path(name)
        (folder / "netlist.il").write_text(made.text, encoding="utf-8")
        top = made.emitted.top
        yosys.run(
            [
                "read_rtlil netlist.il",
                f"hierarchy -top {top}",
                f"{WATCH} {BROKEN}{_RULE} {fault.cell} {fault.port} {bit} {_ACTIVE_AT[fault.mode]}",
                f"rename {top} {TOP}",
                "setundef -init -zero",  # same initial values as a mutant
                "write_rtlil watched.il",
            ],
            folder,
        )
        text = (folder / "watched.il").read_text(encoding="utf-8")
    proof = next(prove_text(text, [_RULE], [_RULE], tuple(CUTS), seconds))
    return proof.status == "proved"
