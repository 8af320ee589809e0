"""Rules of `program_sequencer`: no refused instruction runs, and at most one output stream offers a word at a time."""

from __future__ import annotations

from itertools import combinations

from amaranth.hdl import Cat, Mux, Signal

from ....golden.stream.instruction import INSTRUCTION_BEATS
from ....golden.stream.machine.limits import Reason
from ....golden.stream.machine.program_sequencer import LOAD, ProgramSequencerSpec
from ...formal.checker import Checker
from ...formal.inside import leave_out, parts_of, probe_of

SPEC = ProgramSequencerSpec(operations=2, lanes=2, columns=2, rows=4, wide_rows=4, sums=2)
CUT = ("memories",)


def check(checker: Checker, spec: ProgramSequencerSpec) -> None:
    """For any program image."""
    m, command, status, instruction = (checker.m, *(checker.streams[name] for name in ("command", "status", "o")))
    loading = Signal()
    with m.If(checker.moves("command")):
        m.d.sync += loading.eq(command.payload.run == LOAD)
    # the program checker is cut: its verdict is arbitrary
    leave_out(checker, checker.block, "memory")
    inside = probe_of(checker.block)
    idle, gives, fetches = (inside.state(state) for state in ("command", "give", "fetch"))
    checker.lemmas_together(
        {
            "kind": idle | (inside.running == ~loading),
            "runs": ~gives | ~loading,
            "of_what_is_loaded": ~(gives | fetches) | loading | inside.loaded,
        }
    )
    checker.rule("only_what_is_loaded", ~instruction.valid | inside.loaded)
    _only_what_is_passed(checker, spec, loading)
    checker.rule("image_of_a_load", ~checker.streams["image"].ready | loading)
    offers = (command.ready, status.valid, instruction.valid)
    checker.rule("one_at_a_time", ~Cat(offer & other for offer, other in combinations(offers, 2)).any())


def _only_what_is_passed(checker: Checker, spec: ProgramSequencerSpec, loading: Signal) -> None:
    """Prove that a dispatched instruction, and all others of its program, passed the checks of the last load."""
    m, instruction, inside = checker.m, checker.streams["o"], probe_of(checker.block)
    checks, fields, index = parts_of(checker.block).checker, inside.fields, inside.index
    passed, wrong = Signal(16, name="passed"), Signal(name="one_wrong")
    fetches, gives, checks_one = (inside.state(state) for state in ("fetch", "give", "check"))
    judges = inside.state("remainder") | checks_one
    with m.If(checker.moves("command") & (checker.payload("command").run == LOAD)):
        m.d.sync += [passed.eq(0), wrong.eq(0)]
    with m.Elif(checks_one & checks.ends):
        m.d.sync += [passed.eq(passed + 1), wrong.eq(wrong | (checks.reason != Reason.NONE))]
    at_work = fetches | gives | judges
    fetched = Mux(fetches, inside.fetched, INSTRUCTION_BEATS)
    checker.lemmas_together(
        {
            "as_many": ~(at_work | inside.loaded) | ((fields.operations != 0) & (fields.operations <= spec.operations)),
            "place": ~at_work | (index < fields.operations),
            "checked": ~(at_work & loading) | ((passed == index) & ~wrong),
            "all_passed": ~inside.loaded | ((passed == fields.operations) & ~wrong),
            "final": ~(gives | judges) | (inside.final == (index + 1 == fields.operations)),
            "fetched": ~fetches | (inside.fetched <= INSTRUCTION_BEATS),
            "beats": ~at_work | (inside.address == index * INSTRUCTION_BEATS + fetched),
        }
    )
    checker.rule("only_what_is_passed", ~instruction.valid | ((index < passed) & ~wrong))
    checker.rule("passed_stays", ~inside.writes | (loading & ~inside.loaded))
