"""Rules of `activation_memory`: arbitration, no result lost or invented, and reads see all earlier writes.

A free input picks an arbitrary write, whose address the rules follow. A read's result enters the reader's queue a fixed
number of cycles later; from there on `formal_fifo` proves the order. Only bit 0 of each number is compared: all bits
take the same path.
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
"""Number of cycles from a read to the result's entry into the reader's queue."""


def check(checker: Checker, spec: ActivationMemorySpec) -> None:
    checker.takes("write", Value.cast(1))
    free, queues = Value.cast(1), parts_of(checker.block)
    place = _Place(checker, spec)
    for name in READERS:
        read, queue = checker.streams[f"{name}_read"], queues[f"{name}_queue"]
        outstanding = checker.words(f"{name}_read", name, capacity=READS_AHEAD, drained=READS_AHEAD + spec.latency)
        # a reader that leaves its results does not stall the others
        checker.takes(f"{name}_read", (outstanding != READS_AHEAD) & free)
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
    """Address of the chosen write, and the content that a read accepted now must see."""

    def __init__(self, checker: Checker, spec: ActivationMemorySpec) -> None:
        self._checker, self._spec = checker, spec
        m, write = checker.m, checker.payload("write")
        checker.ports["choose"] = choose = Signal(name="choose")
        self._followed, self._wide = Signal(name="followed"), Signal(name="place_wide")
        self._address, self._part = (Signal.like(write[name], name=f"place_{name}") for name in ("address", "part"))
        self._held = Signal(spec.columns, name="held")
        same = (write.wide == self._wide) & (write.address == self._address) & (write.part == self._part)
        with m.If(checker.moves("write") & Mux(self._followed, same, choose)):
            m.d.sync += [self._followed.eq(1), self._wide.eq(write.wide), self._address.eq(write.address)]
            m.d.sync += [self._part.eq(write.part), self._held.eq(_lowest(write.value, Q11_16.width))]
        # a row of the wide memory has a single part
        checker.assume(~checker.streams["write"].valid | ~write.wide | (write.part == 0))

    def follow(self, name: str, result: Value) -> None:
        """Compare a reader's result with the content at read time."""
        checker, spec = self._checker, self._spec
        read = checker.payload(f"{name}_read")
        hit = self._followed & checker.moves(f"{name}_read") & (read.address == self._address)
        if name == "operands":
            hit &= (read.wide == self._wide) & (read.wide | (read.part == self._part))
            result_bits = _lowest(result, Q11_16.width)
        else:
            hit &= ~self._wide
            bits, part = _lowest(result, Q8_16.width), delayed(checker.m, self._part, ENTERS, f"{name}_part_before")
            result_bits = mux_tree(part, [bits[at : at + spec.columns] for at in range(0, spec.lanes, spec.columns)])
        due, held = (
            delayed(checker.m, value, ENTERS, f"{name}_{kind}") for value, kind in ((hit, "hit"), (self._held, "held"))
        )
        checker.rule(f"{name}_as_written", ~due | (result_bits == held))


def _lowest(values: Value, width: int) -> Value:
    """Bit 0 of each packed value."""
    return Cat(Value.cast(values)[::width])
