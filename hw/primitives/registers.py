"""Registers without reset, and register copies for high fanout."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Signal, Value, signed


def data_register(m: Module, port: Any, name: str = "") -> Any:
    """Register without reset that drives a port combinationally; a view for a view. The caller assigns the register.

    A flag with reset must qualify the contents. Assigned directly, the port itself would be a register
    with reset. The default name is the port's with ``_data``.
    """
    register = Signal(port.shape(), name=name or f"{Value.cast(port).name}_data", reset_less=True)
    m.d.comb += port.eq(register)
    return register


def register(m: Module, name: str, value: Value, width: int = 0) -> Signal:
    """Register without reset that follows a value one cycle later, in its shape or with `width` signed bits."""
    result = Signal(signed(width) if width else value.shape(), name=name, reset_less=True)
    m.d.sync += result.eq(value)
    return result


def replicas(count: int, name: str, shape: ShapeLike = 1) -> list[Signal]:
    """Registers to be assigned the same value, each for a part of its readers: ``NAME_NUMBER``.

    Attribute ``keep`` stops synthesis from merging them, so a copy drives some two thousand loads at most, close
    together on the device. An equal register outside the set would be merged into a copy, so all readers must use the
    copies.
    """
    return [Signal(shape, name=f"{name}_{number}", attrs={"keep": "true"}) for number in range(count)]
