"""Registers of data, which no reset clears: what they hold counts only beside a valid flag that has a reset."""

from typing import Any

from amaranth.hdl import Module, Signal, Value


def data_register(m: Module, port: Any, name: str = "") -> Any:
    """Make a register without reset that drives a port, or a signal of another component.

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
