"""Rules of `axi_read`: legal bursts, FIFO space for every beat, each beat once and in order, faults, `stop`, `idle`.

Commands have any number of beats. The rules build on two proofs: the splitter's bursts are the commands' beats
(`formal_bursts`), and a FIFO keeps words and order (`formal_fifo`). Proved here: bursts of the splitter appear at
`bus.ar`, stored bursts match the beats that answer them, and received beats enter the FIFO, the command's last marked.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const

from ...golden.axi.axi_read import AxiReadSpec
from ..formal.axi import Bus, first_error, legal_command
from ..formal.checker import Checker
from ..formal.inside import parts_of
from ..formal.managers import ReadEdge

SPEC = AxiReadSpec(data=32, address=16, burst=2, depth=4)
CUT = ("memories",)


def check(checker: Checker, spec: AxiReadSpec) -> None:
    block, parts, bus = checker.block, parts_of(checker.block), Bus(spec.address, spec.data, spec.burst)
    inner = {"bursts": parts.splitter.o, "kept": parts.outstanding.i, "answered": parts.outstanding.o}
    for name, port in inner.items():
        checker.inner(name, port)
    legal_command(checker, "command", bus)
    edge = ReadEdge(checker, "bus", block)
    over, arrived, beat, bad, waiting = edge.over, edge.arrived, edge.beat, edge.bad, edge.waiting
    checker.lemma("beats_kept", over | (parts.beats.empty == (waiting == 0)))

    checker.words("bursts", "bus_ar", capacity=1, drained=2)
    checker.in_order("bursts", "bus_ar", 1, ("address", "length"))
    burst, kept, answered = (checker.payload(name) for name in inner)
    same = (kept.beat_address == burst.address[bus.low :]) & (kept.last == burst.last)
    checker.rule("kept", (checker.moves("kept") == checker.moves("bursts")) & (~checker.moves("kept") | same))
    checker.rule("answered", (checker.moves("answered") == edge.ends) & (~arrived | parts.outstanding.o.valid))
    stored = parts.beats.i
    same = (stored.payload.data == beat.data) & (stored.payload.last == (beat.last & answered.last))
    checker.rule("stored", (stored.valid == arrived) & (~arrived | (same & (over | stored.ready))))
    checker.handshake("o", unless=block.stop | bad)
    # `over` adds 0 words, and suspends the drain rule as any gain does
    gains = [(arrived & ~over, 1), (over | block.stop | bad | edge.memory.bad, 0)]
    checker.balance("o", gains, "o", spec.depth, spec.depth + 4)
    delivered = parts.beats.o
    checker.rule("delivered", ~block.o.valid | (delivered.valid & (block.o.payload == delivered.payload)))
    stopped = over | block.error.any()
    checker.rule("taken", stopped | ((delivered.valid & delivered.ready) == checker.moves("o")))
    first_error(checker, bad, beat.response, Cat(Const(0, bus.low), answered.beat_address))
    checker.rule("over_no_beat", ~(stopped & block.o.valid))
    checker.rule("over_accepts", ~over | block.command.ready)
    r, outstanding = block.bus.r, edge.memory.owed
    willing = ~over & ~block.stop & ~block.hold & block.bus.ar.ready & block.o.ready & (r.valid | (outstanding == 0))
    willing &= block.command.valid | ~block.idle
    still = ~Cat(checker.moves(name) for name in ("command", "bus_ar", "bus_r", "o")).any()
    checker.passes("progress", willing & still, 5)
