"""Pipeline registers: a delay line for the control and data that travel beside a pipeline."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data


def delayed(m: Module, value: Value, cycles: int, name: str = "delayed") -> Value:
    """Delay a value by a fixed number of cycles.

    Parameters
    ----------
    m : Module
        Takes the registers, in its `sync` domain.
    value : Value or data.View
        A view comes back as a view of the same layout.
    cycles : int
        Number of registers; 0 gives `value` itself.
    name : str
        Prefix of the registers' names: ``NAME_NUMBER``.

    Returns
    -------
    Value or data.View
        `value` as it was `cycles` ago; zero in the first `cycles` cycles after reset.
    """
    plain = Value.cast(value)
    for number in range(cycles):
        later = Signal(plain.shape(), name=f"{name}_{number}")
        m.d.sync += later.eq(plain)
        plain = later
    return data.View(value.shape(), plain) if isinstance(value, data.View) else plain
