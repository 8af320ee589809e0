"""Rules of `sparse_add`: an output beat for each input beat, matching packet ends, and no leftover corrections."""

from __future__ import annotations

from ...golden.zo.sparse_add import SparseAddSpec
from ..formal.checker import Checker

SPEC = SparseAddSpec(lanes=8, index_bits=5, queue=4, tag=1)


def check(checker: Checker, spec: SparseAddSpec) -> None:
    """Indices may come in any order, and a packet may have any number of corrections.

    Assumption: corrections of a third packet wait until the first has left. Without this bound the prover finds no
    proof in time.
    """
    checker.words("i", "o", capacity=spec.latency, drained=spec.latency)
    checker.words("i", "o", capacity=spec.latency, only="last")
    # FIFO with output register, and two more registers
    inside = spec.queue + 1 + 2
    outstanding = checker.words("sparse", "o", capacity=inside + spec.latency, only="last", name="packets")
    checker.assume(~(checker.streams["sparse"].valid & (outstanding > 1)))
    checker.in_order("i", "o", spec.latency, fields=("last", "tag"))
    checker.progress(spec.lead + 1)
