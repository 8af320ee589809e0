"""Registers in a row: control that travels beside a pipeline."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data


def delayed(m: Module, value: Value, cycles: int, name: str = "delayed") -> Value:
    """`value`, so many cycles later; what comes before the first is zero."""
    plain = Value.cast(value)
    for number in range(cycles):
        later = Signal(plain.shape(), name=f"{name}_{number}")
        m.d.sync += later.eq(plain)
        plain = later
    return data.View(value.shape(), plain) if isinstance(value, data.View) else plain
