"""Rules of `activation_memory`: who waits, no result is lost or made, and reads see what was written before them.

A place is followed, any: a free input chooses a write, whose place it is from then on. What a read of it finds enters
the reader's queue some cycles later; that the words of a FIFO leave in order is proved of the FIFO. The bits of a
number go the same way, so that the lowest one stands for all.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.fixed import Q8_16
from ....golden.stream.memory.activation_memory import READERS, READS_AHEAD, ActivationMemorySpec
from ....golden.stream.norms import Q11_16
from ....hw.primitives.mux_tree import mux_tree
from ....hw.primitives.pipeline import delayed
from ...formal.checker import Checker
from ...formal.inside import parts_of

SPEC = ActivationMemorySpec(lanes=4, columns=2, rows=2, wide_rows=2, row_tag=1, key_tag=1, operand_tag=1)
ENTERS = SPEC.latency - 2
"""Cycles from a read to the reader's queue."""


def check(checker: Checker, spec: ActivationMemorySpec) -> None:
    """Add the rules."""
    checker.takes("write", Value.cast(1))
    free, queues = Value.cast(1), parts_of(checker.block)
    place = _Place(checker, spec)
    for name in READERS:
        read, queue = checker.streams[f"{name}_read"], queues[f"{name}_queue"]
        owed = checker.words(f"{name}_read", name, capacity=READS_AHEAD, drained=READS_AHEAD + spec.latency)
        # what the other readers do with their results holds none up
        checker.takes(f"{name}_read", (owed != READS_AHEAD) & free)
        checker.rule(f"{name}_turn", ~checker.moves(f"{name}_read") | free)
        narrow = ~read.payload.wide if name == "operands" else 1
        free &= ~(checker.moves(f"{name}_read") & narrow)
        checker.rule(f"{name}_room", ~queue.i.valid | queue.i.ready)
        taken, tag = (
            delayed(checker.m, value, ENTERS, f"{name}_{kind}")
            for value, kind in ((checker.moves(f"{name}_read"), "taken_before"), (read.payload.tag, "tag_before"))
        )
        checker.rule(f"{name}_enters", queue.i.valid == taken)
        checker.rule(f"{name}_tagged", ~taken | (queue.i.payload.tag == tag))
        place.follow(name, queue.i.payload.value)
    checker.progress(1)


class _Place:
    """A place that a write chose, and what it holds for a read that is taken now."""

    def __init__(self, checker: Checker, spec: ActivationMemorySpec) -> None:
        self._checker, self._spec = checker, spec
        m, given = checker.m, checker.payload("write")
        checker.ports["choose"] = choose = Signal(name="choose")
        self._followed, self._wide = Signal(name="followed"), Signal(name="place_wide")
        self._address, self._part = (Signal.like(given[name], name=f"place_{name}") for name in ("address", "part"))
        self._held = Signal(spec.columns, name="held")
        same = (given.wide == self._wide) & (given.address == self._address) & (given.part == self._part)
        with m.If(checker.moves("write") & Mux(self._followed, same, choose)):
            m.d.sync += [self._followed.eq(1), self._wide.eq(given.wide), self._address.eq(given.address)]
            m.d.sync += [self._part.eq(given.part), self._held.eq(_lowest(given.value, Q11_16.width))]
        # a row of the wide memory has one part
        checker.assume(~checker.streams["write"].valid | ~given.wide | (given.part == 0))

    def follow(self, name: str, result: Value) -> None:
        """Compare what enters a reader's queue with what the place held as it was read."""
        checker, spec = self._checker, self._spec
        given = checker.payload(f"{name}_read")
        hit = self._followed & checker.moves(f"{name}_read") & (given.address == self._address)
        if name == "operands":
            hit &= (given.wide == self._wide) & (given.wide | (given.part == self._part))
            found = _lowest(result, Q11_16.width)
        else:
            hit &= ~self._wide
            bits, part = _lowest(result, Q8_16.width), delayed(checker.m, self._part, ENTERS, f"{name}_part_before")
            found = mux_tree(part, [bits[at : at + spec.columns] for at in range(0, spec.lanes, spec.columns)])
        due, held = (
            delayed(checker.m, value, ENTERS, f"{name}_{kind}") for value, kind in ((hit, "hit"), (self._held, "held"))
        )
        checker.rule(f"{name}_as_written", ~due | (found == held))


def _lowest(values: Value, width: int) -> Value:
    """Lowest bit of each of some values."""
    return Cat(Value.cast(values)[::width])
