"""Adders in pairs, a register behind each: as deep as the logarithm of how many there are to add."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value, signed


def adder_tree(m: Module, values: Sequence[Value], name: str) -> Value:
    """The sum of 2**k signed values of one width, k cycles later and k bits wider."""
    level = 0
    while len(values) > 1:
        sums = []
        for number, (a, b) in enumerate(zip(values[::2], values[1::2], strict=True)):
            total = Signal(signed(len(a) + 1), name=f"{name}_{level}_{number}")
            m.d.sync += total.eq(a + b)
            sums.append(total)
        values, level = sums, level + 1
    return values[0]
