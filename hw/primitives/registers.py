"""Registers without reset for data, and register copies for nets with high fanout."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Signal, Value, signed


def data_register(m: Module, port: Any, name: str = "") -> Any:
    """Register without reset that drives a port of the component, or a signal of another component.

    The contents are valid only with a flag that has a reset. Assigned directly, the port itself would be a register
    with reset.

    Parameters
    ----------
    m : Module
        Owner of the connection.
    port : Signal or data.View
        Signal driven combinationally.
    name : str
        Name of the register, by default the port's with ``_data``.

    Returns
    -------
    Signal or data.View
        The register, of the port's shape, to be assigned in a clock domain.
    """
    register = Signal(port.shape(), name=name or f"{Value.cast(port).name}_data", reset_less=True)
    m.d.comb += port.eq(register)
    return register


def register(m: Module, name: str, value: Value, width: int = 0) -> Signal:
    """Register without reset that follows a value, one cycle later.

    Parameters
    ----------
    m : Module
        Owner of the register, in its `sync` domain.
    name : str
        Name of the register.
    value : Value
        Next contents.
    width : int
        Signed bits, by default the value's shape.
    """
    result = Signal(signed(width) if width else value.shape(), name=name, reset_less=True)
    m.d.sync += result.eq(value)
    return result


def replicas(count: int, name: str, shape: ShapeLike = 1) -> list[Signal]:
    """Registers to be assigned the same value, each for a part of its readers.

    Attribute ``keep`` stops synthesis from merging them, so a copy drives some two thousand loads at most, close
    together on the device. An equal register outside the set would be merged into a copy, so all readers must use the
    copies.

    Parameters
    ----------
    count : int
        Number of registers.
    name : str
        Prefix of their names: ``NAME_NUMBER``.
    shape : ShapeLike
        Shape of each.
    """
    return [Signal(shape, name=f"{name}_{number}", attrs={"keep": "true"}) for number in range(count)]
