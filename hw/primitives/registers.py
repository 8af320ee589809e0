"""Registers without reset, and register copies for high fanout."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Signal, Value, signed


def data_register(m: Module, port: Any, name: str = "") -> Any:
    """Register without reset that drives a port combinationally; a view if the port is a view.

    The caller assigns the register. A flag with reset must qualify the contents. A port that is assigned directly would
    be a register with reset. The default name is the port's name with ``_data``.
    """
    register = Signal(port.shape(), name=name or f"{Value.cast(port).name}_data", reset_less=True)
    m.d.comb += port.eq(register)
    return register


def register(m: Module, name: str, value: Value, width: int = 0) -> Signal:
    """Register without reset that holds a value one cycle later, in the value's shape or with `width` signed bits."""
    result = Signal(signed(width) if width else value.shape(), name=name, reset_less=True)
    m.d.sync += result.eq(value)
    return result


def replicas(count: int, name: str, shape: ShapeLike = 1) -> list[Signal]:
    """Copies of a register, ``NAME_NUMBER``: the caller assigns all the same value; each serves some of the readers.

    Attribute ``keep`` stops synthesis from merging the copies. Each should drive at most some two thousand loads, close
    together on the device. Synthesis merges an equal register outside the set into a copy, so all readers must use the
    copies.
    """
    return [Signal(shape, name=f"{name}_{number}", attrs={"keep": "true"}) for number in range(count)]
