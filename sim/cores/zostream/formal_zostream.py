"""Rules of `zostream`: its edges (see `core_edges`), write addresses and programs.

Besides the memory system, the netlist keeps the logit writer and the check of programs. A pass starts only with an
accepted program; `formal_program_sequencer` proves that the checked instructions are the instructions that run.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Signal

from ....golden.cores.zostream.registers import PROGRAM, Command
from ....golden.cores.zostream.zostream import ZostreamSpec
from ....hw.axi.memory_port import byte_address
from ....hw.cores.zostream.zostream import Zostream
from ...formal.checker import Checker
from ...formal.inside import cleared_by, parts_of, probe_of
from ..core_edges import core_rules, shrink, trainer_of

CUT = ("memories",)
_INSIDE = "steps"


def part() -> Zostream:
    """Core with a small array."""
    core = Zostream(ZostreamSpec(**ZostreamSpec.presets["tiny"]))  # type: ignore[arg-type]
    shrink(core, _INSIDE)
    return core


def check(checker: Checker, part: Zostream) -> None:
    core_rules(checker, part, _INSIDE, keep=("program", "logits"))
    trainer = trainer_of(part, _INSIDE)
    with cleared_by(checker, parts_of(part).trainer.active):
        with checker.lemmas_end():
            _writes(checker, trainer)
        with checker.lemmas_end():
            _programs(checker, trainer)


def _writes(checker: Checker, trainer: Any) -> None:
    """Prove that logits, and activations at a cut, are written in sequence from the writer's start address.

    Logits start at the address in their register, activations at the cut at their sample's cache slot, and deltas are
    written whole. `formal_memory_system` proves that the memory system writes as commanded.
    """
    m, control, memory, writer = checker.m, trainer.control, trainer.memory, trainer.passes.logits
    logits, passes, infer = memory.logits_write.command, trainer.passes, trainer.steps.infer
    reader, before, infers, shown = passes.reader, passes.before, control.command == Command.INFER, probe_of(trainer)
    # between its start and end the reader begins a sentence, and then outputs the sentence's results
    reads, begun = Signal(name="reads"), Signal(name="begun")
    m.d.sync += [reads.eq(reader.start | (reads & ~reader.done)), begun.eq((reader.begins | begun) & ~reader.done)]
    checker.assume(~(reader.begins & ~reads) & ~(reader.o.valid & ~begun))
    # `placed`: the address is set, for logits at the command's start, for values at the cut when a sentence begins
    placed = Signal(name="placed")
    with m.If(control.start):
        m.d.sync += placed.eq(infers)
    with m.Elif(reader.begins & before):
        m.d.sync += placed.eq(1)
    place, started = Signal.like(writer.address, name="logits_place"), Signal(name="logits_started")
    m.d.sync += started.eq(started | control.start)
    with m.If(writer.start):
        m.d.sync += place.eq(writer.address)
    with m.Elif(logits.valid & logits.ready):
        m.d.sync += place.eq(place + byte_address(logits.payload.beats))
    # no result of the previous command is left when the writer starts, nor at a cut of the previous sample
    checker.assume(~(writer.start & reader.o.valid))
    for name, begins, address in (
        ("logits_begin", control.start & infers, control.settings.logits),
        ("kept_begin", reader.begins & before, byte_address(passes.passes.entry.kept)),
    ):
        checker.rule(name, ~begins | (writer.start & (writer.address == address)))
    results = shown.state("LOGITS")
    settled, written = shown.state("RUN") | results, shown.written
    checker.lemma("results_read", (reads == results) & (~begun | reads))
    checker.lemma("infers", ~settled | (infer == (infers | (control.command == Command.CACHE))))
    checker.lemma("keeps", ~settled | (passes.keeps == (control.command == Command.CACHE)))
    cut = passes.keeps | (passes.first & passes.cut)
    checker.lemma("before_settled", ~settled | (before == cut))
    checker.lemma("written_settled", ~results | (written == (infer | before)))
    checker.lemma("kept_placed", ~(begun & before) | placed)
    checker.lemma("inferred_placed", ~(results & infers) | placed)
    checker.rule("logits_placed", ~writer.i.valid | placed)
    checker.rule("logits_in_place", ~started | (logits.payload.address == place))
    save = memory.deltas_write.command
    saves = shown.state("SAVE") | shown.state("SAVING")
    # `done` of a save comes only after the save's command is accepted
    checker.assume(~(save.valid & passes.deltas.done))
    checker.lemma("saves", ~saves | (control.command == Command.SAVE_DELTAS))
    checker.lemma("save_offered", ~save.valid | saves)
    checker.rule("deltas_in_place", ~save.valid | (save.payload.address == control.settings.deltas))
    checker.rule("deltas_of_a_save", ~save.valid | (control.command == Command.SAVE_DELTAS))


def _programs(checker: Checker, trainer: Any) -> None:
    """Prove that only an accepted program runs, and that a refused program has an error code."""
    program, engine = trainer.passes.program, trainer.engine
    looks, fails, idle, runs = (probe_of(program).state(name) for name in ("LOOK", "FAILED", "IDLE", "RUN"))
    checker.lemma("valid_at_rest", ~program.valid | idle | runs)
    checker.lemma("failed_for_ever", program.failed == fails)
    checker.rule("accepted_alone", ~engine.start | program.valid)
    checker.rule("none_while_looking", ~looks | ~engine.instruction.valid)
    checker.rule("refused_is_no_program", ~program.failed | ~program.valid)
    checker.rule("refusal_told", ~program.failed | (program.error > PROGRAM))
