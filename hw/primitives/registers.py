"""Registers of data, which no reset clears, and registers of which there are several, for nets with many loads."""

from typing import Any

from amaranth.hdl import Module, ShapeLike, Signal, Value, signed


def data_register(m: Module, port: Any, name: str = "") -> Any:
    """Make a register without reset that drives a port, or a signal of another component.

    What it holds counts only beside a flag that has a reset.

    A port of a component, and one of a memory, is a signal with a reset where it is a register itself.

    Parameters
    ----------
    m : Module
        Takes the connection.
    port : Signal or data.View
        What the register drives, combinationally.
    name : str
        The register's name, by default the port's with ``_data``.

    Returns
    -------
    Signal or data.View
        The register, of the port's shape, to be assigned in a clock domain.
    """
    register = Signal(port.shape(), name=name or f"{Value.cast(port).name}_data", reset_less=True)
    m.d.comb += port.eq(register)
    return register


def register(m: Module, name: str, value: Value, width: int = 0) -> Signal:
    """Make a register without reset, of a value's shape or of so many signed bits, that follows the value.

    Parameters
    ----------
    m : Module
        Takes the register, in its `sync` domain.
    name : str
        The register's name.
    value : Value
        What it has in the next cycle.
    width : int
        Signed bits, by default the value's shape.
    """
    found = Signal(signed(width) if width else value.shape(), name=name, reset_less=True)
    m.d.sync += found.eq(value)
    return found


def replicas(count: int, name: str, shape: ShapeLike = 1) -> list[Signal]:
    """Make registers that are assigned the same value, each for a part of its readers.

    Synthesis would merge them into one again: the attribute ``keep`` forbids it. So none drives more than some two
    thousand loads, which reach over a part of the device alone. A register that is not one of them, and equal to one,
    is merged into that: so all readers are to read these.

    Parameters
    ----------
    count : int
        How many.
    name : str
        Prefix of their names: ``NAME_NUMBER``.
    shape : ShapeLike
        Of each.
    """
    return [Signal(shape, name=f"{name}_{number}", attrs={"keep": "true"}) for number in range(count)]
