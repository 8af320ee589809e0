"""Bus-side rules of the AXI4 managers `AxiRead` and `AxiWrite`, for any command source.

`Reads` and `Writes` have the rules of a bus. This module adds lemmas about a manager's stored bursts, which other
proofs use, and rules of `stop`, faults and `idle`. Commands and internal beats are free, so the rules hold for a
manager alone, in a memory system, and in a core.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Mux, Signal, Value

from .axi import Bus, Reads, Writes
from .checker import Checker
from .inside import parts_of


class ReadEdge:
    """Bus side of an `AxiRead`, which is the checked block or one of its submodules.

    Rules in addition to `Reads`: ``NAME_room`` (requested and stored beats fit the FIFO), ``NAME_bursts_open`` and
    ``NAME_bursts_kept`` (the stored bursts are the offered and outstanding bursts), ``NAME_r_over`` (no burst after
    `stop` or an error), ``NAME_r_hold`` (no new burst in a cycle of `hold`), ``NAME_r_beyond`` (an error in place of a
    burst beyond the last address), ``NAME_r_idle`` (`idle` only with nothing offered or outstanding),
    ``NAME_r_idle_rises`` (after `stop` or an error `idle` rises soon after the last burst has ended).

    Attributes
    ----------
    memory : Reads
        Memory on the bus.
    over : Signal
        High from the cycle after `stop` or `error`.
    arrived, ends, bad : Value
        High in the cycle after a beat; after a burst's last beat; after a beat in error.
    beat : Signal
        Payload of the arrived beat.
    waiting : Signal
        Number of processed beats not yet taken at `o`.
    """

    def __init__(self, checker: Checker, name: str, manager: Any) -> None:
        m, spec, parts, ar = checker.m, manager.spec, parts_of(manager), checker.streams[f"{name}_ar"]
        self.memory = memory = Reads(checker, name, Bus(spec.address, spec.data, spec.burst), spec.depth)
        checker.handshake(f"{name}_ar")
        self.over, self.arrived = (Signal(name=f"{name}_r_{each}") for each in ("over", "arrived"))
        self.beat = beat = Signal.like(checker.payload(f"{name}_r"), name=f"{name}_r_beat")
        self.ends, self.bad = self.arrived & beat.last, self.arrived & beat.response[1]
        taken = manager.o.valid & manager.o.ready
        self.waiting, opened = (Signal(range(spec.depth + 2), name=f"{name}_r_{each}") for each in ("waiting", "open"))
        m.d.sync += [
            self.over.eq(self.over | manager.stop | manager.error.any()),
            self.arrived.eq(checker.moves(f"{name}_r")),
            beat.eq(checker.payload(f"{name}_r")),
            self.waiting.eq(self.waiting + (self.arrived & ~self.over) - taken),
            opened.eq(opened + _issued(parts) - self.ends),
        ]
        pending = Mux(ar.valid, ar.payload.length[:4] + 1, 0)
        reserved = memory.owed + pending + self.arrived + Mux(self.over, 0, self.waiting)
        checker.lemma(f"{name}_room", reserved <= spec.depth)
        checker.lemma(f"{name}_bursts_open", opened == memory.bursts + ar.valid + self.ends)
        checker.lemma(f"{name}_bursts_kept", parts.outstanding.empty == (opened == 0))
        _over(checker, f"{name}_r", manager, memory, self.over)


class WriteEdge:
    """Bus side of an `AxiWrite`; attributes `memory` and `over` as in `ReadEdge`.

    Rules in addition to `Writes`: ``NAME_bursts_open``, ``NAME_bursts_taken`` and ``NAME_bursts_kept`` (the stored
    bursts are the offered and outstanding bursts), ``NAME_w_over``, ``NAME_w_hold``, ``NAME_w_beyond``,
    ``NAME_w_idle``, ``NAME_w_idle_rises`` as in `ReadEdge`, ``NAME_w_sends`` (beats of an announced burst are offered,
    even after `stop`).
    """

    def __init__(self, checker: Checker, name: str, manager: Any) -> None:
        m, spec, parts = checker.m, manager.spec, parts_of(manager)
        aw, w = (checker.streams[f"{name}_{suffix}"] for suffix in ("aw", "w"))
        # capacity of the address FIFO, plus its output register
        most = spec.outstanding + 1
        self.memory = memory = Writes(checker, name, Bus(spec.address, spec.data, spec.burst), most)
        checker.handshake(f"{name}_aw")
        self.over, opened = Signal(name=f"{name}_w_over"), Signal(range(most + 2), name=f"{name}_w_open")
        m.d.sync += [
            self.over.eq(self.over | manager.stop | manager.error.any()),
            opened.eq(opened + _issued(parts) - memory.ends),
        ]
        checker.lemma(f"{name}_bursts_open", opened == memory.unsent + memory.new + memory.done)
        checker.lemma(f"{name}_bursts_taken", opened == memory.taken + aw.valid)
        checker.lemma(f"{name}_bursts_kept", parts.outstanding.empty == (opened == 0))
        checker.passes(f"{name}_w_sends", (memory.unsent != 0) & ~w.valid, 2)
        _over(checker, f"{name}_w", manager, memory, self.over)

    def stored(self, checker: Checker, name: str, manager: Any) -> None:
        """Prove that a burst's beats are in the FIFO when it is announced.

        Rules ``NAME_beats_stored``, ``NAME_beats_claimed``, ``NAME_w_held``, ``NAME_w_stable``.
        """
        m, depth, parts = checker.m, manager.spec.depth, parts_of(manager)
        beats, burst = parts.beats, parts.splitter.o.payload
        stored, claimed = (Signal(range(depth + 3), name=f"{name}_beats_{suffix}") for suffix in ("stored", "claimed"))
        m.d.sync += [
            stored.eq(stored + (beats.i.valid & beats.i.ready) - (beats.o.valid & beats.o.ready)),
            claimed.eq(claimed + Mux(_issued(parts), burst.length[:4] + 1, 0) - checker.moves(f"{name}_w")),
        ]
        checker.lemma(f"{name}_beats_stored", (beats.empty == (stored == 0)) & (beats.i.ready | (stored >= depth)))
        checker.lemma(f"{name}_beats_claimed", (claimed <= stored) & (stored <= depth + 1))
        checker.handshake(f"{name}_w")


def _issued(parts: Any) -> Value:
    return parts.splitter.o.valid & parts.splitter.o.ready


def _over(checker: Checker, name: str, manager: Any, memory: Reads | Writes, over: Signal) -> None:
    """Rules of `stop`, `hold`, errors and `idle`."""
    held = Signal(name=f"{name}_hold_before")
    checker.m.d.sync += held.eq(manager.hold)
    checker.rule(f"{name}_over", ~(over & memory.new))
    checker.rule(f"{name}_hold", ~(held & memory.new))
    splitter, failed = parts_of(manager).splitter, Signal(name=f"{name}_beyond_before")
    beyond = splitter.o.valid & splitter.beyond
    checker.m.d.sync += failed.eq(beyond)
    checker.rule(f"{name}_beyond", ~(beyond & splitter.o.ready) & (~failed | manager.error.any()))
    checker.rule(f"{name}_idle", ~manager.idle | (memory.quiet & parts_of(manager).splitter.idle))
    quiet = checker.lasts(f"{name}_over_quiet", over & memory.quiet, 4)
    checker.rule(f"{name}_idle_rises", manager.idle | ~quiet)
