"""Rules of `axi_read`: legal bursts, room for every beat, each beat once and in order, faults, `stop` and `idle`.

Commands may have any number of beats. Two parts have proofs of their own, on which these rules build: that the bursts
of the splitter are the beats of the commands, see `formal_bursts`, and that a FIFO keeps its words and their order, see
`formal_fifo`. Here the bursts of the splitter come out at `bus.ar`, what is kept of them meets the beats that answer
them, and what goes into the FIFO of beats is what came, with the mark of its command's last.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Signal

from ...golden.axi.axi_read import AxiReadSpec
from ..formal.axi import Bus, Reads, first_error, lasts, legal_command, progress
from ..formal.checker import Checker

SPEC = AxiReadSpec(data=32, address=16, burst=2, depth=4)


def check(checker: Checker, spec: AxiReadSpec) -> None:
    """Add the rules."""
    m, block, bus = checker.m, checker.block, Bus(spec.address, spec.data, spec.burst)
    parts = checker.inside.submodules
    checker.inner("bursts", parts.splitter.o)
    for name in ("kept", "answered"):
        checker.inner(name, parts.outstanding.i if name == "kept" else parts.outstanding.o)
    legal_command(checker, "command", bus)
    memory = Reads(checker, "bus", bus, spec.depth)
    over = Signal(name="over")
    m.d.sync += over.eq(over | block.stop | block.error.any())
    # the block looks at beats a cycle after they came
    arrived, beat = Signal(name="arrived"), Signal.like(block.bus.r.payload, name="beat")
    m.d.sync += [arrived.eq(checker.moves("bus_r")), beat.eq(block.bus.r.payload)]
    ends, bad = arrived & beat.last, arrived & beat.response[1]

    waiting, open_bursts = (Signal(range(spec.depth + 2), name=name) for name in ("waiting", "open_bursts"))
    m.d.sync += [
        waiting.eq(waiting + (arrived & ~over) - checker.moves("o")),
        open_bursts.eq(open_bursts + checker.moves("bursts") - ends),
    ]
    pending = Mux(block.bus.ar.valid, block.bus.ar.payload.length[:4] + 1, 0)
    checker.lemma("room", memory.owed + pending + arrived + Mux(over, 0, waiting) <= spec.depth)
    checker.lemma("bursts_open", open_bursts == memory.bursts + block.bus.ar.valid + ends)
    checker.lemma("bursts_kept", parts.outstanding.empty == (open_bursts == 0))
    checker.lemma("beats_kept", over | (parts.beats.empty == (waiting == 0)))

    checker.words("bursts", "bus_ar", capacity=1, drained=2)
    checker.in_order("bursts", "bus_ar", 1, ("address", "length"))
    kept, answered = checker.payload("kept"), checker.payload("answered")
    same = (kept.beat_address == checker.payload("bursts").address[bus.low :]) & (
        kept.last == checker.payload("bursts").last
    )
    checker.rule("kept", (checker.moves("kept") == checker.moves("bursts")) & (~checker.moves("kept") | same))
    checker.rule("answered", (checker.moves("answered") == ends) & (~arrived | checker.streams["answered"].valid))
    stored = parts.beats.i
    same = (stored.payload.data == beat.data) & (stored.payload.last == (beat.last & answered.last))
    checker.rule("stored", (stored.valid == arrived) & (~arrived | (same & (over | stored.ready))))
    checker.handshake("o", unless=block.stop | bad)
    # `over` counts as a gain of nothing, so that it ends what must drain
    gains = [(arrived & ~over, 1), (over | block.stop | bad | memory.bad, 0)]
    checker.balance("o", gains, [(block.o.valid, checker.moves("o"), 1)], spec.depth, spec.depth + 4)
    delivered = parts.beats.o
    checker.rule("delivered", ~block.o.valid | (delivered.valid & (block.o.payload == delivered.payload)))
    checker.rule("taken", over | block.error.any() | ((delivered.valid & delivered.ready) == checker.moves("o")))
    first_error(checker, bad, beat.response, Cat(Const(0, bus.low), answered.beat_address))
    _ends(checker, memory, over)


def _ends(checker: Checker, memory: Reads, over: Signal) -> None:
    """The end of it: what `stop` and errors forbid, what `idle` tells, and that nothing hangs before."""
    block = checker.block
    command, ar, r, o = block.command, block.bus.ar, block.bus.r, block.o
    checker.rule("over_no_burst", ~(over & memory.new))
    checker.rule("over_no_beat", ~((over | block.error.any()) & o.valid))
    checker.rule("over_accepts", ~over | command.ready)
    checker.rule("idle_true", ~block.idle | (memory.quiet & checker.inside.submodules.splitter.idle))
    checker.rule("idle_rises", block.idle | ~lasts(checker, "over_quiet", over & memory.quiet, 4))
    willing = ~over & ~block.stop & ar.ready & o.ready & (r.valid | (memory.owed == 0))
    moving = ("command", "bus_ar", "bus_r", "o")
    progress(checker, "progress", willing & (command.valid | ~block.idle), moving, 5)
