"""Pipelined adder tree, with a register after each level."""

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value, signed


def adder_tree(m: Module, values: Sequence[Value], name: str, reset_less: bool = True) -> Value:
    """Exact sum of signed values; accepts a set of operands a cycle.

    Parameters
    ----------
    values : sequence of Value
        2**k operands of equal width, interpreted as signed.
    name : str
        Prefix of the registers' names: ``NAME_LEVEL_NUMBER``.
    reset_less : bool
        Registers without reset: after a reset, old sums appear for k cycles.

    Returns
    -------
    Value
        The sum, k cycles later and k bits wider; the operand itself for k = 0.

    Raises
    ------
    ValueError
        If the number of operands is not a power of two.
    """
    if len(values) & (len(values) - 1) or not len(values):
        raise ValueError(f"an adder tree of {len(values)} operands: give a power of two")
    level = 0
    while len(values) > 1:
        sums = []
        for number, (a, b) in enumerate(zip(values[::2], values[1::2], strict=True)):
            total = Signal(signed(len(a) + 1), name=f"{name}_{level}_{number}", reset_less=reset_less)
            m.d.sync += total.eq(a + b)
            sums.append(total)
        values, level = sums, level + 1
    return values[0]
