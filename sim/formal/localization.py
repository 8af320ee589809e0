"""Localization: reduce a model to the logic that matters for its rule, with ABC's `gla`.

ABC keeps the logic that proves the rule for the first cycles; all other registers and gates become free inputs. A proof
of the reduced model therefore holds for the whole model.
"""

from __future__ import annotations

from pathlib import Path

from .abc import run_abc

WHOLE, PART = "whole.aig", "model.aig"
"""Files of the whole and of the reduced model; `prover.prove_output` takes the latter."""
_GRACE = 60
"""Seconds for reading and writing, in addition to the search time."""


def localize(folder: Path, cycles: int, seconds: int) -> bool:
    """Write to `PART` the logic that matters for the output of `WHOLE`, an and-inverter graph.

    A counterexample within the first `cycles` cycles leaves no result. If the search runs out of `seconds`, the result
    covers the cycles reached so far. Returns True if the result may be provable.
    """
    search = [f"read_aiger {WHOLE}", "strash", "scleanup", "&get", f"&gla -F {cycles} -T {seconds}"]
    said = run_abc(folder, [*search, "&gla_derive", "&put", f"write_aiger {PART}"], seconds + _GRACE)
    return "True counter-example" not in said and (folder / PART).exists()
