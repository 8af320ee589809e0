"""Rules of `axi_write`: legal bursts, beats exactly as announced, one answer for each, faults, `stop` and `idle`.

Commands may have any number of beats. Two parts have proofs of their own, on which these rules build: that the bursts
of the splitter are the beats of the commands, see `formal_bursts`, and that a FIFO keeps its words and their order, see
`formal_fifo`. Here the bursts of the splitter come out at `bus.aw`, the beats that are stored come out at `bus.w`, and
what is kept of the bursts meets their answers.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Signal

from ...golden.axi.axi_write import AxiWriteSpec
from ..formal.axi import Bus, Writes, first_error, lasts, legal_command, progress
from ..formal.checker import Checker

SPEC = AxiWriteSpec(data=32, address=16, burst=2, depth=4, outstanding=2)


def check(checker: Checker, spec: AxiWriteSpec) -> None:
    """Add the rules."""
    m, block, bus = checker.m, checker.block, Bus(spec.address, spec.data, spec.burst)
    parts = checker.inside.submodules
    outstanding, beats = parts.outstanding, parts.beats
    inner = {
        "bursts": parts.splitter.o,
        "kept": outstanding.i,
        "answered": outstanding.o,
        "stored": beats.i,
        "sent": beats.o,
    }
    for name, port in inner.items():
        checker.inner(name, port)
    legal_command(checker, "command", bus)
    # one more than the FIFO of addresses holds: another waits in its output register
    memory = Writes(checker, "bus", bus, spec.outstanding + 1)
    b, w = block.bus.b, block.bus.w
    over = Signal(name="over")
    m.d.sync += over.eq(over | block.stop | block.error.any())

    open_bursts = Signal(range(spec.outstanding + 3), name="open_bursts")
    m.d.sync += open_bursts.eq(open_bursts + checker.moves("bursts") - memory.ends)
    checker.lemma("bursts_open", open_bursts == memory.unsent + memory.new + memory.done)
    checker.lemma("bursts_taken", open_bursts == memory.taken + block.bus.aw.valid)
    checker.lemma("bursts_kept", outstanding.empty == (open_bursts == 0))

    _ends(checker, memory, over)

    stored, claimed = (Signal(range(spec.depth + 3), name=name) for name in ("beats_stored", "beats_claimed"))
    claims = Mux(checker.moves("bursts"), checker.payload("bursts").length[:4] + 1, 0)
    m.d.sync += [
        stored.eq(stored + checker.moves("stored") - checker.moves("sent")),
        claimed.eq(claimed + claims - checker.moves("bus_w")),
    ]
    checker.lemma("beats_stored", (beats.empty == (stored == 0)) & (beats.i.ready | (stored >= spec.depth)))
    checker.lemma("beats_claimed", (claimed <= stored) & (stored <= spec.depth + 1))

    checker.words("bursts", "bus_aw", capacity=1, drained=2)
    checker.in_order("bursts", "bus_aw", 1, ("address", "length"))
    same = checker.payload("kept") == checker.payload("bursts").address[bus.low :]
    checker.rule("kept", (checker.moves("kept") == checker.moves("bursts")) & (~checker.moves("kept") | same))
    checker.rule("answered", (checker.moves("answered") == memory.ends) & (~b.valid | outstanding.o.valid))
    stopped = over | block.error.any()
    same = beats.i.payload == block.i.payload
    checker.rule("stored", stopped | ((checker.moves("stored") == checker.moves("i")) & (~beats.i.valid | same)))
    same = beats.o.valid & (w.payload.data == beats.o.payload.data)
    checker.rule("sent", (checker.moves("sent") == checker.moves("bus_w")) & (~w.valid | same))
    first_error(checker, memory.bad, b.payload.response, Cat(Const(0, bus.low), outstanding.o.payload))


def _ends(checker: Checker, memory: Writes, over: Signal) -> None:
    """The end of it: what `stop` and errors forbid and what they leave to do, what `idle` tells, and no deadlock."""
    block = checker.block
    command, i, aw, w, b = block.command, block.i, block.bus.aw, block.bus.w, block.bus.b
    checker.rule("over_no_burst", ~(over & memory.new))
    checker.rule("over_accepts", ~over | (command.ready & i.ready))
    ready = aw.ready & w.ready
    checker.rule("over_sends", (memory.unsent == 0) | ~lasts(checker, "over_ready", over & ready, 8))
    checker.rule("idle_true", ~block.idle | (memory.quiet & checker.inside.submodules.splitter.idle))
    checker.rule("idle_rises", block.idle | ~lasts(checker, "over_quiet", over & memory.quiet, 4))
    willing = ~over & ~block.stop & ready & i.valid & (b.valid | (memory.done == 0) | (memory.taken == 0))
    moving = ("command", "i", "bus_aw", "bus_w", "bus_b")
    progress(checker, "progress", willing & (command.valid | ~block.idle), moving, 5)
