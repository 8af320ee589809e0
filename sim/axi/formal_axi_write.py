"""Rules of `axi_write`: legal bursts, exactly the announced beats, an answer for each burst, faults, `stop`, `idle`.

Commands have any number of beats. The rules build on two proofs: the splitter's bursts are the commands' beats
(`formal_bursts`), and a FIFO keeps words and order (`formal_fifo`). Proved here: bursts of the splitter appear at
`bus.aw`, stored beats appear at `bus.w`, and each answer is matched with the stored address of its burst.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const

from ...golden.axi.axi_write import AxiWriteSpec
from ..formal.axi import Bus, first_error, legal_command
from ..formal.checker import Checker
from ..formal.inside import parts_of
from ..formal.managers import WriteEdge

SPEC = AxiWriteSpec(data=32, address=16, burst=2, depth=4, outstanding=2)
CUT = ("memories",)


def check(checker: Checker, spec: AxiWriteSpec) -> None:
    block, parts, bus = checker.block, parts_of(checker.block), Bus(spec.address, spec.data, spec.burst)
    outstanding, beats = parts.outstanding, parts.beats
    inner = {"bursts": parts.splitter.o, "kept": outstanding.i, "answered": outstanding.o}
    for name, port in (inner | {"stored": beats.i, "sent": beats.o}).items():
        checker.inner(name, port)
    legal_command(checker, "command", bus)
    edge = WriteEdge(checker, "bus", block)
    over, memory = edge.over, edge.memory
    command, i, aw, w, b = block.command, block.i, block.bus.aw, block.bus.w, block.bus.b
    checker.rule("over_accepts", ~over | (command.ready & i.ready))
    willing = ~over & ~block.stop & ~block.hold & aw.ready & w.ready & i.valid
    willing &= b.valid | (memory.done == 0) | (memory.taken == 0)
    willing &= command.valid | ~block.idle
    still = ~Cat(checker.moves(name) for name in ("command", "i", "bus_aw", "bus_w", "bus_b")).any()
    checker.passes("progress", willing & still, 5)

    edge.stored(checker, "bus", block)
    checker.words("bursts", "bus_aw", capacity=1, drained=2)
    checker.in_order("bursts", "bus_aw", 1, ("address", "length"))
    same = checker.payload("kept") == checker.payload("bursts").address[bus.low :]
    checker.rule("kept", (checker.moves("kept") == checker.moves("bursts")) & (~checker.moves("kept") | same))
    checker.rule("answered", (checker.moves("answered") == memory.ends) & (~b.valid | outstanding.o.valid))
    stopped = over | block.error.any()
    same = beats.i.payload == i.payload
    checker.rule("stored", stopped | ((checker.moves("stored") == checker.moves("i")) & (~beats.i.valid | same)))
    same = beats.o.valid & (w.payload.data == beats.o.payload.data)
    checker.rule("sent", (checker.moves("sent") == checker.moves("bus_w")) & (~w.valid | same))
    first_error(checker, memory.bad, b.payload.response, Cat(Const(0, bus.low), outstanding.o.payload))
