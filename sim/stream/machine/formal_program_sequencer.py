"""Rules of `program_sequencer`: nothing runs of a program that was refused, and one thing is done at a time."""

from __future__ import annotations

from itertools import combinations

from amaranth.hdl import Cat, Signal

from ....golden.stream.machine.program_sequencer import LOAD, ProgramSequencerSpec
from ...formal.checker import Checker
from ...formal.inside import leave_out, state_of, variables_of

SPEC = ProgramSequencerSpec(operations=2, lanes=2, columns=2, rows=4, wide_rows=4, sums=2)
CUT = ("memories",)


def check(checker: Checker, spec: ProgramSequencerSpec) -> None:
    """Add the rules, for any image."""
    m, command, status, given = (checker.m, *(checker.streams[name] for name in ("command", "status", "o")))
    loading = Signal()
    with m.If(checker.moves("command")):
        m.d.sync += loading.eq(command.payload.run == LOAD)
    # whatever the checks say
    leave_out(checker, checker.block, "memory")
    inside = variables_of(checker.block)
    idle, gives, fetches = (state_of(checker.block, state) for state in ("command", "give", "fetch"))
    checker.lemmas_together(
        {
            "kind": idle | (inside.running == ~loading),
            "runs": ~gives | ~loading,
            "of_what_is_loaded": ~(gives | fetches) | loading | inside.loaded,
        }
    )
    checker.rule("only_what_is_loaded", ~given.valid | inside.loaded)
    checker.rule("image_of_a_load", ~checker.streams["image"].ready | loading)
    offers = (command.ready, status.valid, given.valid)
    checker.rule("one_at_a_time", ~Cat(one & other for one, other in combinations(offers, 2)).any())
