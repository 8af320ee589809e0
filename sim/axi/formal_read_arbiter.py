"""Rules of `ReadArbiter`: each command is forwarded once, by rank, and each beat goes to its command's requester.

`formal_fifo` proves the order in the FIFO of requesters; here: a requester enters with its command and leaves with the
last beat.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Mux, Signal, Value

from ...hw.axi.arbiter import ReadArbiter
from ..formal.checker import Checker
from ..formal.inside import parts_of

NAMES = ("first", "second", "third")


def part() -> ReadArbiter:
    return ReadArbiter(NAMES)


def check(checker: Checker, part: ReadArbiter) -> None:
    m, i = checker.m, part.i
    requesters = parts_of(checker.block).requesters
    checker.inner("kept", requesters.i)
    checker.inner("answered", requesters.o)
    number = grants(checker, [f"{name}_read_command" for name in NAMES], requesters.i.ready)
    entered = (checker.moves("kept") == checker.moves("command")) & (requesters.i.payload == number)
    checker.rule("kept", entered | ~(checker.moves("kept") | checker.moves("command")))

    # beats come only for forwarded commands with beats outstanding
    missing = Signal(range(32), name="missing")
    ends = checker.moves("i") & i.payload.last
    m.d.sync += missing.eq(missing + checker.moves("command") - ends)
    checker.assume(~i.valid | (missing != 0))
    checker.lemma("room", missing <= 17)
    checker.lemma("kept_all", (requesters.empty == (missing == 0)) & (~requesters.o.valid | (missing != 0)))
    checker.rule("answered", checker.moves("answered") == ends)

    beats = [getattr(part, f"{name}_read").beats for name in NAMES]
    owner = [requesters.o.valid & (requesters.o.payload == at) for at in range(len(beats))]
    for name, port, owns in zip(NAMES, beats, owner, strict=True):
        to_it = port.valid == (i.valid & owns)
        checker.rule(f"{name}_beats", to_it & (~port.valid | (port.payload == i.payload.data)))
        checker.handshake(f"{name}_read_beats")
    checker.rule("beat_once", i.ready == Cat(owns & port.ready for owns, port in zip(owner, beats, strict=True)).any())
    # the requester is known in time, so that a beat waits only for its receiver
    checker.passes("owner_known", (missing != 0) & ~requesters.o.valid, 2)


def grants(checker: Checker, names: Sequence[str], free: Value) -> Value:
    """Prove that commands are forwarded once, by rank and without delay; return the index of the granted requester.

    Rules: ``command_rank`` (payload of the highest-ranked active requester), ``command_once`` (requester and receiver
    move together), ``command_served`` (a command waits only for higher ranks, the receiver and `free`),
    ``command_held`` and ``command_stable`` (while the set of active requesters is unchanged). `names` are the requester
    streams, highest rank first; `free` is high while the arbiter accepts commands; the output stream is ``command``.
    """
    m, command = checker.m, checker.streams["command"]
    ports = [checker.streams[name] for name in names]
    asking = Cat(port.valid for port in ports)
    number, payload = Value.cast(0), Value.cast(ports[-1].payload)
    for at, port in reversed(list(enumerate(ports))):
        number, payload = Mux(port.valid, at, number), Mux(port.valid, Value.cast(port.payload), payload)
    checker.rule("command_rank", ~command.valid | (asking.any() & (Value.cast(command.payload) == payload)))
    moved = Cat(checker.moves(name) for name in names)
    checker.rule("command_once", moved == Mux(checker.moves("command"), 1 << number, 0)[: len(ports)])
    checker.rule("command_served", command.valid == (asking.any() & free))
    waited, before, held = Signal(name="waited"), Signal.like(asking, name="before"), Signal.like(payload, name="held")
    m.d.sync += [waited.eq(command.valid & ~command.ready), before.eq(asking), held.eq(Value.cast(command.payload))]
    checker.inner("command", command)
    checker.rule("command_held", ~waited | command.valid)
    checker.rule("command_stable", ~waited | (before != asking) | (Value.cast(command.payload) == held))
    return number
