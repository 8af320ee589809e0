"""Normalisation of positive numbers: a left shift that makes the highest bit 1."""

from amaranth.hdl import Cat, Const, Module, Mux, Value

from ....golden.stream.functions import MANTISSA
from ...primitives.registers import register


def normalise(m: Module, value: Value) -> tuple[Value, Value]:
    """Shift a positive number left until its highest bit is 1, with a register for each bit of the shift count.

    Parameters
    ----------
    value : Value
        Number, unsigned, with more than `MANTISSA` bits.

    Returns
    -------
    (Value, Value)
        The leading 1 with the `MANTISSA` bits below, and the number of leading zeros, `normalise_latency` cycles later.
    """
    normal, zeros, width = value, Value.cast(Const(0, 0)), len(value)
    for bits in reversed(range(normalise_latency(width))):
        # keep only the bits that the following stages can shift into the result
        needed = MANTISSA + (1 << bits)
        low = ~normal[-(1 << bits) :].any()
        shifted = Mux(low, Cat(Const(0, 1 << bits), normal)[: len(normal)], normal)
        normal = register(m, f"normal{bits}", shifted[-min(needed, len(normal)) :])
        zeros = register(m, f"zeros{bits}", Cat(low, zeros))
    return normal, zeros


def normalise_latency(width: int) -> int:
    """Latency of `normalise`, in cycles."""
    return width.bit_length()
