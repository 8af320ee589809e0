"""Rules of `ReadArbiter`: each command once, the highest rank first, and each beat to its command's requester.

The FIFO of requesters keeps its order, see `formal_fifo`: here a requester enters it with its command, and leaves it
with the last beat.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Mux, Signal, Value

from ...hw.axi.arbiter import ReadArbiter
from ..formal.checker import Checker
from ..formal.inside import parts_of

NAMES = ("first", "second", "third")


def part() -> ReadArbiter:
    """Make an arbiter of three requesters: one above, one below, one between."""
    return ReadArbiter(NAMES)


def check(checker: Checker, part: ReadArbiter) -> None:
    """Add the rules."""
    m, i = checker.m, part.i
    requesters = parts_of(checker.block).requesters
    checker.inner("kept", requesters.i)
    checker.inner("answered", requesters.o)
    number = grants(checker, [f"{name}_read_command" for name in NAMES], requesters.i.ready)
    entered = (checker.moves("kept") == checker.moves("command")) & (requesters.i.payload == number)
    checker.rule("kept", entered | ~(checker.moves("kept") | checker.moves("command")))

    # a beat comes only for a command that was passed on and whose last beat has not come
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
    # a requester is known soon enough: with that, a beat waits for its requester alone
    checker.passes("owner_known", (missing != 0) & ~requesters.o.valid, 2)


def grants(checker: Checker, names: Sequence[str], free: Value) -> Value:
    """Prove that commands are passed on once, by rank, and as soon as can be; give the number of the one passed on.

    Rules ``command_rank`` (the highest of those that ask, with its payload), ``command_once`` (what it moves, the other
    side takes), ``command_served`` (it waits for nothing but ranks above, the other side, and `free`),
    ``command_held``, ``command_stable`` (as long as the same requesters ask).

    Parameters
    ----------
    checker : Checker
        Of the arbiter, with the output stream ``command``.
    names : sequence of str
        The requesters' streams, the highest rank first.
    free : Value
        High while the arbiter takes commands.
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
