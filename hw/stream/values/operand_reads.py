"""Handshakes of operand reads."""

from typing import Any

from amaranth.hdl import Module, Signal, Value

_MOST = 7
"""Maximum number of outstanding chunks, enough to cover the read latency."""


def operand_reads(m: Module, reads: Any, operands: Any, wants: Value, takes: Value) -> tuple[Value, Value, Signal]:
    """Drive the handshakes of a block's operand reads; accept only chunks that were requested.

    Parameters
    ----------
    reads, operands : stream interfaces
        Ports of the block; the function drives `valid` of reads and `ready` of operands.
    wants, takes : Value
        The block requests a chunk; it can accept a chunk.

    Returns
    -------
    (Value, Value, Signal)
        Flag: a request is accepted. Flag: a requested chunk is offered. Number of outstanding chunks.
    """
    outstanding, asked, present = Signal(range(_MOST + 1)), Signal(name="asked"), Signal(name="there")
    m.d.comb += [
        reads.valid.eq(wants & (outstanding != _MOST)),
        asked.eq(reads.valid & reads.ready),
        present.eq(operands.valid & outstanding.any()),
        operands.ready.eq(takes & outstanding.any()),
    ]
    m.d.sync += outstanding.eq(outstanding + asked - (present & takes))
    return asked, present, outstanding
