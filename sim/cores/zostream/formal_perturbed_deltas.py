"""Rules of `perturbed_deltas`: requests pass unchanged, and the generator's position follows its words.

Outputs of generator, deltas, state loader and monitor are free, so the rules hold for layers of any size, even those
too large to simulate.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Mux, Signal

from ....golden.cores.zostream.zostream import ZostreamSpec
from ....golden.stream.weights.word_offsets import OffsetCommand
from ....hw.cores.zostream.perturbed_deltas import DeltaCommand, PerturbedDeltas
from ....hw.stream.engine.engine_port import REQUEST
from ...formal.checker import Checker
from ...formal.inside import leave_out, probe_of

_COMMANDED = ("kind", "table", "factor", "count")
"""Fields of a command for the deltas; the other fields are for the generator."""


def part() -> PerturbedDeltas:
    """Deltas of a small core."""
    spec = ZostreamSpec(**ZostreamSpec.presets["tiny"])  # type: ignore[arg-type]
    return PerturbedDeltas(spec.offsets)


def check(checker: Checker, part: PerturbedDeltas) -> None:
    """Prove that a command is offered unchanged until it is accepted, and that requests wait meanwhile."""
    m, command, request, inside = checker.m, part.command, part.request, probe_of(part)
    leave_out(checker, part)
    for name in ("offsets", "save"):  # streams of the deltas, covered by their own rules
        checker.inner(name, getattr(part, name))
    generator, into = part.generator, part.offsets_block.command
    accepted, waits = Signal(DeltaCommand(), name="given"), Signal(name="waits")
    # registers without a reset have any value before the first command
    started = Signal(name="started")
    m.d.sync += started.eq(started | inside.taken)
    passes = into.valid & into.ready
    of_engine = checker.moves("request")
    with m.If(checker.moves("command")):
        m.d.sync += [accepted.eq(command.payload), waits.eq(1)]
    with m.Elif(passes & ~of_engine):
        m.d.sync += waits.eq(0)
    checker.lemma("taken_then_held", waits == (inside.taken | inside.held))
    checker.lemma("taken_as_given", ~inside.taken | (inside.before == accepted))
    checker.lemma("kept_as_given", ~started | inside.taken | (inside.kept == accepted))
    checker.rule("one_at_a_time", ~(command.ready & waits))
    checker.rule("passed_or_held", passes == (of_engine | (passes & inside.held)))
    checker.rule("request_waits", ~(of_engine & inside.held))
    for name in REQUEST:
        checker.rule(f"request_{name}", ~of_engine | (into.payload[name] == request.payload[name]))
    checker.rule("request_kind", ~of_engine | (into.payload.kind == OffsetCommand.OFFSETS))
    for name in _COMMANDED:
        checker.rule(f"command_{name}", ~inside.held | (into.payload[name] == accepted[name]))
    words = part.offsets_block.u
    checker.rule("words", (words.valid == generator.o.valid) & (words.payload == generator.o.payload))
    _position(checker, part, (accepted, waits, inside.taken, started))


def _position(checker: Checker, part: PerturbedDeltas, command: tuple[Any, Signal, Signal, Signal]) -> None:
    """Rules of the words from generator to deltas, and of the generator's position, which may return to the mark."""
    m, generator, words = checker.m, part.generator, part.offsets_block.u
    accepted, waits, taken, started = command
    period, passes = part.spec.generator.period, words.valid & words.ready
    remaining = Signal.like(accepted.count, name="left")
    position, mark = (Signal(range(period), name=name) for name in ("place", "mark"))
    with m.If(taken):
        m.d.sync += remaining.eq(accepted.count)
    with m.Elif(passes):
        m.d.sync += remaining.eq(remaining - 1)
    checker.assume(~part.start | (part.position < period))
    last, following = remaining == 1, Mux(position == period - 1, 0, position + 1)
    with m.If(part.start):
        m.d.sync += [position.eq(part.position), mark.eq(part.position)]
    with m.Elif(passes):
        m.d.sync += position.eq(Mux(last & accepted.replay, mark, following))
        with m.If(last & accepted.mark):
            m.d.sync += mark.eq(following)
    # words belong to the latest command of the deltas; the next command comes after this command's end
    checker.assume(~passes | (started & ~waits))
    checker.lemma("counted", ~started | (probe_of(part).left == remaining))
    checker.rule("position", part.at == position)
    checker.rule("taken_together", words.ready == generator.o.ready)
    # the generator reads replay and mark only with the last word of a command
    ends = passes & last
    checker.rule("replay_told", ~ends | (generator.replay.bit == accepted.replay))
    checker.rule("mark_told", ~ends | (generator.mark.bit == accepted.mark))
    checker.rule("none_told_before", ~(passes & ~last) | ~(generator.replay.bit | generator.mark.bit))
