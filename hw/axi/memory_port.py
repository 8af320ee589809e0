"""Interfaces between a memory system and its requesters."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.axi.bus import ADDRESS_BITS, BEAT
from .bursts import command

BEATS = stream.Signature(8 * BEAT)
"""Stream of beats of 128 bits."""
OFFSET_BITS = exact_log2(BEAT)
"""Number of low bits of a byte address that are 0 at the start of a beat."""


def byte_address(beat: Value) -> Value:
    """Byte address of a beat number."""
    return Cat(Const(0, OFFSET_BITS), beat)


def beat_number(address: Value) -> Value:
    """Beat number of a byte address."""
    return address[OFFSET_BITS:]


class ReadPort(wiring.Signature):
    """Reads of any length, with the requester's directions.

    Members
    -------
    command : Out stream of ``address`` (`address` bits, a multiple of 16), ``beats`` (16 bits, from 1 up)
        Reads; the next may come before the beats of earlier reads.
    beats : In stream of 128 bits
        Beats of all commands, in order. After a bad response or a stop, an offered beat may be withdrawn if no FIFO
        lies between.
    """

    def __init__(self, address: int = ADDRESS_BITS) -> None:
        super().__init__({"command": Out(command(address)), "beats": In(BEATS)})


class WritePort(wiring.Signature):
    """Writes of any length, with the requester's directions.

    Members
    -------
    command : Out stream of ``address`` (`address` bits, a multiple of 16), ``beats`` (16 bits, from 1 up)
        Writes. No other requester's command is accepted until all beats of a command have passed.
    beats : Out stream of 128 bits
        Beats of all commands, in order.
    """

    def __init__(self, address: int = ADDRESS_BITS) -> None:
        super().__init__({"command": Out(command(address)), "beats": Out(BEATS)})


class CommandFault(wiring.Signature):
    """A fault that ends a command, with the directions of the component that detects it.

    Parameters
    ----------
    address : int
        Bits of a byte address, at least 32.

    Members
    -------
    failed : Out(1)
        A fault occurred. All three members are held until reset.
    error : Out, as wide as the codes
        Code of the first fault.
    address : Out, `address` bits
        Byte address of the failed burst, or the offending value.
    """

    def __init__(self, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        super().__init__({"failed": Out(1), "error": Out(max(errors).bit_length()), "address": Out(address)})
