"""Rules of the edges of `zostream`, see `core_edges`, of where it writes, and of the programs that it runs.

Kept beside the memory system are what writes logits, and what has a program checked. A pass begins only
with a program that was accepted; that it runs the instructions that were checked is a rule of `program_sequencer`.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Signal

from ....golden.cores.zostream.registers import PROGRAM, Command
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....hw.axi.memory_port import byte_address
from ....hw.cores.zostream.zostream import Zostream
from ...formal.checker import Checker
from ...formal.inside import cleared_by, parts_of, state_of
from ..core_edges import core_rules, shrink, trainer_of

CUT = ("memories",)
_INSIDE = "steps"


def part() -> Zostream:
    """Make the core of a small array."""
    core = Zostream(ZostreamSpec(**ZostreamSpec.presets["tiny"]))  # type: ignore[arg-type]
    shrink(core, _INSIDE)
    return core


def check(checker: Checker, part: Zostream) -> None:
    """Add the rules."""
    core_rules(checker, part, _INSIDE, keep=("program", "logits"))
    trainer = trainer_of(part, _INSIDE)
    with cleared_by(checker, parts_of(part).trainer.active):
        with checker.lemmas_end():
            _writes(checker, trainer)
        with checker.lemmas_end():
            _programs(checker, trainer)


def _writes(checker: Checker, trainer: Any) -> None:
    """Logits, and what passes a cut, are written each behind the one before, from where the writer began; deltas whole.

    A command begins with the address of its register. What the memory system writes is what these commands say, as its
    parts' rules have it.
    """
    m, control, memory, writer = checker.m, trainer.control, trainer.memory, trainer.logits
    logits = memory.logits_write.command
    place, started = Signal(trainer.spec.address, name="logits_place"), Signal(name="logits_started")
    m.d.sync += started.eq(started | control.start)
    with m.If(writer.start):
        m.d.sync += place.eq(writer.address)
    with m.Elif(logits.valid & logits.ready):
        m.d.sync += place.eq(place + byte_address(logits.payload.beats))
    # none is left of the command before, nor of the sample before where each has a place of its own
    checker.assume(~(writer.start & trainer.reader.o.valid))
    checker.rule("logits_begin", ~control.start | (writer.start & (writer.address == control.settings.logits)))
    checker.rule("logits_in_place", ~started | (logits.payload.address == place))
    save = memory.deltas_write.command
    saves = Cat(state_of(trainer, state) for state in ("SAVE", "SAVING")).any()
    # a save is over behind its last beat, and no beat is taken before the command
    checker.assume(~(save.valid & trainer.deltas.done))
    checker.lemma("saves", ~saves | (control.command == Command.SAVE_DELTAS))
    checker.lemma("save_offered", ~save.valid | saves)
    checker.rule("deltas_in_place", ~save.valid | (save.payload.address == control.settings.deltas))
    checker.rule("deltas_of_a_save", ~save.valid | (control.command == Command.SAVE_DELTAS))


def _programs(checker: Checker, trainer: Any) -> None:
    """Only a program that was accepted is run; a refused one has its reason as the code."""
    program, engine = trainer.program, trainer.engine
    looks, fails = state_of(program, "LOOK"), state_of(program, "FAILED")
    idle, runs = state_of(program, "IDLE"), state_of(program, "RUN")
    checker.lemma("valid_at_rest", ~program.valid | idle | runs)
    checker.lemma("failed_for_ever", program.failed == fails)
    checker.rule("accepted_alone", ~engine.start | program.valid)
    checker.rule("none_while_looking", ~looks | ~engine.instruction.valid)
    checker.rule("refused_is_no_program", ~program.failed | ~program.valid)
    checker.rule("refusal_told", ~program.failed | (program.error > PROGRAM))
