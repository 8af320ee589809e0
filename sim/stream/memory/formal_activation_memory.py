"""Rules of `activation_memory`: who waits, no result is lost or made, and reads see what was written before them.

A place is followed, any: a free input chooses a write, whose place it is from then on. Of its reads one is followed,
any, of each reader. The bits of a number go the same way, so that the lowest one stands for all.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value

from ....golden.fixed import Q8_16
from ....golden.stream.memory.activation_memory import READERS, READS_AHEAD, ActivationMemorySpec
from ....golden.stream.norms import Q11_16
from ....hw.primitives.mux_tree import mux_tree
from ...formal.checker import Checker
from ...formal.inside import parts_of

SPEC = ActivationMemorySpec(lanes=4, columns=2, rows=2, wide_rows=2, row_tag=1, key_tag=1, operand_tag=1)


def check(checker: Checker, spec: ActivationMemorySpec) -> None:
    """Add the rules."""
    checker.takes("write", Value.cast(1))
    free, queues = Value.cast(1), parts_of(checker.block)
    place = _Place(checker, spec)
    drained = READS_AHEAD + spec.latency
    for name in READERS:
        read = checker.streams[f"{name}_read"]
        owed = checker.words(f"{name}_read", name, capacity=READS_AHEAD, drained=drained)
        queue = getattr(queues, f"{name}_queue")
        checker.rule(f"{name}_room", ~queue.i.valid | queue.i.ready)
        # neither the other readers' results nor theirs that wait hold it up
        checker.takes(f"{name}_read", (owed != READS_AHEAD) & free)
        narrow = ~read.payload.wide if name == "operands" else 1
        checker.rule(f"{name}_turn", ~checker.moves(f"{name}_read") | free)
        free &= ~(checker.moves(f"{name}_read") & narrow)
        checker.in_order(f"{name}_read", name, READS_AHEAD, ["tag"])
        place.follow(name, owed)
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

    def follow(self, name: str, owed: Signal) -> None:
        """Follow one of the reads of the place to its result."""
        checker, spec = self._checker, self._spec
        m, given, result = checker.m, checker.payload(f"{name}_read"), checker.streams[name]
        checker.ports[f"{name}_choose"] = choose = Signal(name=f"{name}_choose")
        inside, ahead = Signal(name=f"{name}_inside"), Signal.like(owed, name=f"{name}_before")
        word, spend = Signal(spec.columns, name=f"{name}_word"), checker.moves(name)
        hit = self._followed & (given.address == self._address)
        if name == "operands":
            hit &= (given.wide == self._wide) & (given.wide | (given.part == self._part))
            found = _lowest(result.payload.value, Q11_16.width)
        else:
            hit &= ~self._wide
            bits = _lowest(result.payload.value, Q8_16.width)
            found = mux_tree(self._part, [bits[at : at + spec.columns] for at in range(0, spec.lanes, spec.columns)])
        due = inside & (ahead == 0)
        with m.If(inside):
            m.d.sync += [ahead.eq(ahead - (spend & ~due)), inside.eq(~(spend & due))]
        with m.Elif(checker.moves(f"{name}_read") & choose & hit):
            m.d.sync += [inside.eq(1), ahead.eq(owed - spend), word.eq(self._held)]
        checker.rule(f"{name}_as_written", ~(due & result.valid) | (found == word))


def _lowest(values: Value, width: int) -> Value:
    """Lowest bit of each of some values."""
    return Cat(Value.cast(values)[::width])
