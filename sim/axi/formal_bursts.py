"""Rules of `BurstSplitter`: its bursts are the commands' beats, each once and in order, with maximal length.

The reference counts each command beat by beat. A burst begins after the previous burst, extends to the next multiple of
the maximal burst or to the end of the command, and is marked if it is the last. Commands have any number of beats;
`drop` comes at any time.
"""

from __future__ import annotations

from amaranth.hdl import Mux, Signal

from ...golden.axi.bus import BEAT_COUNT_BITS
from ...hw.axi.bursts import BurstSplitter
from ..formal.axi import Bus, legal_bursts, legal_command
from ..formal.checker import Checker

COMPLETE = True
# wide beats: a 4 KiB page has only 32, which keeps the relevant address bits to 9
BUS = Bus(address=16, data=1024, burst=4)
_BITS = 14
"""Number of address bits on the bus."""


def part() -> BurstSplitter:
    """Splitter with fewer address bits on the bus than in the commands."""
    return BurstSplitter(*BUS, bus=_BITS)


def check(checker: Checker, part: BurstSplitter) -> None:
    m, o, command = checker.m, part.o, part.command
    legal_command(checker, "command", BUS)
    checker.handshake("o", unless=part.drop)
    # next beat and remaining beats - 1 of the command in progress; `first`, `length`, `last` are the offered burst
    place, beats_left = Signal(BUS.address - BUS.low, name="place"), Signal(BEAT_COUNT_BITS, name="left")
    busy, offers, dropped = Signal(name="busy"), Signal(name="offers"), Signal(name="dropped")
    first, length, last = Signal.like(place, name="first"), Signal(8, name="length"), Signal(name="last")
    to_end = BUS.burst - 1 - place % BUS.burst
    final = beats_left <= to_end
    beats = Mux(final, beats_left, to_end)
    free = ~offers | o.ready
    m.d.sync += [offers.eq((offers & ~o.ready | busy & free) & ~part.drop), dropped.eq(part.drop)]
    with m.If(busy & free):
        m.d.sync += [place.eq(place + beats + 1), beats_left.eq(beats_left - beats - 1), busy.eq(~final)]
        m.d.sync += [first.eq(place), length.eq(beats), last.eq(final)]
    with m.If(checker.moves("command")):
        m.d.sync += [place.eq(command.payload.address[BUS.low :]), beats_left.eq(command.payload.beats - 1), busy.eq(1)]
    with m.If(part.drop):
        m.d.sync += busy.eq(0)
    burst = o.payload
    place_on_bus = first[: _BITS - BUS.low]
    same = (burst.address[BUS.low :] == place_on_bus) & (burst.length == length) & (burst.last == last)
    checker.lemma("bursts", (o.valid == offers) & (~offers | same))
    checker.rule("beyond", ~offers | (part.beyond == first[len(place_on_bus) :].any()))
    legal_bursts(checker, "o", BUS)
    checker.rule("idle", part.idle == ~(busy | offers))
    checker.rule("accepts", command.ready == (~busy | part.drop))
    checker.rule("dropped", ~dropped | ~o.valid)
    willing = ~part.drop & o.ready & command.valid & ~checker.moves("o") & ~checker.moves("command")
    checker.passes("progress", willing, 2)
