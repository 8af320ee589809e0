"""Chunks that were asked for and did not come yet: a counter that bounds them."""

from typing import Any

from amaranth.hdl import Module, Signal, Value

_MOST = 7
"""Most of them: as many as come while one is under way."""


def operand_reads(m: Module, reads: Any, operands: Any, wants: Value, takes: Value) -> tuple[Value, Value, Signal]:
    """Drive the handshakes of a block's reads of operands: none is taken that was not asked for.

    Parameters
    ----------
    m : Module
        Takes the counter.
    reads, operands : stream interfaces
        The block's, of which `valid` and `ready` are driven.
    wants : Value
        There is a chunk to ask for.
    takes : Value
        A chunk can be taken.

    Returns
    -------
    (Value, Value, Signal)
        A chunk is asked for; one is on offer that was asked for; how many are to come.
    """
    owed, asked, there = Signal(range(_MOST + 1)), Signal(name="asked"), Signal(name="there")
    m.d.comb += [
        reads.valid.eq(wants & (owed != _MOST)),
        asked.eq(reads.valid & reads.ready),
        there.eq(operands.valid & owed.any()),
        operands.ready.eq(takes & owed.any()),
    ]
    m.d.sync += owed.eq(owed + asked - (there & takes))
    return asked, there, owed
