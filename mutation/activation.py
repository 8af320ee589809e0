"""Proof that a fault never does anything: its bit always has the value that the fault gives it.

Up to the first cycle in which a fault changes a bit, a mutant runs as the original does. Where the original never gets
there, whatever its inputs, the mutant is equivalent. That takes the original alone, of which much is left out if one
bit is asked for: it decides faults of counters and flags that the block's parameters keep from their last values,
where a comparison of two whole blocks ends in nothing.
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
"""Value at which a fault does something: of its bit, or of the bit that controls it."""


def never_active(made: CellNetlist, fault: CellFault, seconds: int) -> bool:
    """Tell whether a proof is found that a fault never changes its bit.

    What memories and multipliers give is taken to be anything.

    Parameters
    ----------
    made : CellNetlist
        The block without a fault.
    fault : CellFault
        The fault.
    seconds : int
        Time for each search, see `prover.prove`.
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
                "setundef -init -zero",  # as a mutant's registers begin
                "write_rtlil watched.il",
            ],
            folder,
        )
        text = (folder / "watched.il").read_text(encoding="utf-8")
    proof = next(prove_text(text, [_RULE], [_RULE], tuple(CUTS), seconds))
    return proof.status == "proved"
