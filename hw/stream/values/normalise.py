"""Normalisation of positive numbers to a leading one."""

from amaranth.hdl import Cat, Const, Module, Mux, Value

from ....golden.stream.functions import MANTISSA
from ...primitives.registers import register


def normalise(m: Module, value: Value) -> tuple[Value, Value]:
    """Shift a positive number left until its highest bit is 1, with a register per bit of the shift.

    Parameters
    ----------
    value : Value
        Unsigned, wider than `MANTISSA` bits.

    Returns
    -------
    (Value, Value)
        The leading one with the next `MANTISSA` bits, and the number of leading zeros; `normalise_latency` cycles
        later.
    """
    normal, zeros, width = value, Value.cast(Const(0, 0)), len(value)
    for bits in reversed(range(normalise_latency(width))):
        # keep only bits that later stages can still shift in
        needed = MANTISSA + (1 << bits)
        low = ~normal[-(1 << bits) :].any()
        shifted = Mux(low, Cat(Const(0, 1 << bits), normal)[: len(normal)], normal)
        normal = register(m, f"normal{bits}", shifted[-min(needed, len(normal)) :])
        zeros = register(m, f"zeros{bits}", Cat(low, zeros))
    return normal, zeros


def normalise_latency(width: int) -> int:
    """Cycles of `normalise`."""
    return width.bit_length()
