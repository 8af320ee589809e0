"""Position of a number's leading one, and the bits behind it: what a table of inverses or roots is addressed by."""

from amaranth.hdl import Cat, Const, Module, Mux, Value

from ....golden.stream.functions import MANTISSA
from ...primitives.registers import register


def normalise(m: Module, value: Value) -> tuple[Value, Value]:
    """Shift a positive number to the left until its highest bit is 1: a register for each bit of the places.

    Parameters
    ----------
    m : Module
        Takes the registers, in its `sync` domain.
    value : Value
        Unsigned, of more than `MANTISSA` bits.

    Returns
    -------
    (Value, Value)
        The leading one and the `MANTISSA` bits behind it, and the zeros that were above it; `normalise_latency`
        cycles later.
    """
    normal, zeros, width = value, Value.cast(Const(0, 0)), len(value)
    for bits in reversed(range(normalise_latency(width))):
        # of what the next stages drop nothing is kept
        kept = MANTISSA + (1 << bits)
        low = ~normal[-(1 << bits) :].any()
        shifted = Mux(low, Cat(Const(0, 1 << bits), normal)[: len(normal)], normal)
        normal = register(m, f"normal{bits}", shifted[-min(kept, len(normal)) :])
        zeros = register(m, f"zeros{bits}", Cat(low, zeros))
    return normal, zeros


def normalise_latency(width: int) -> int:
    """Cycles of `normalise` for a number of so many bits."""
    return width.bit_length()
