"""Localization: leave out of a model what a rule does not depend on, however much of it there is, by ABC's `gla`.

What is left is found on the way: whatever takes part in the proofs that the rule holds in the first cycles. The rest of
the registers and gates may have any value then, so that what is proved of the part holds for the whole.
"""

from __future__ import annotations

from pathlib import Path

from .abc import run_abc

WHOLE, PART = "whole.aig", "model.aig"
"""Files of the model and of the part that is left, which `prover.prove_output` takes."""
_GRACE = 60
"""Seconds for reading and writing, beside the time for the search."""


def localize(folder: Path, cycles: int, seconds: int) -> bool:
    """Write the part of a model on which its output depends; tell if there is one that may be proved.

    Parameters
    ----------
    folder : Path
        With the model in the file `WHOLE`, an and-inverter graph with one output; the part is written to `PART`.
    cycles : int
        Cycles in which the output is to stay 0. If it cannot, there is no part.
    seconds : int
        Time for the search; after it the part is that of the cycles so far.
    """
    search = [f"read_aiger {WHOLE}", "strash", "scleanup", "&get", f"&gla -F {cycles} -T {seconds}"]
    said = run_abc(folder, [*search, "&gla_derive", "&put", f"write_aiger {PART}"], seconds + _GRACE)
    return "True counter-example" not in said and (folder / PART).exists()
