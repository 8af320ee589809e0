"""Interfaces between a memory system and the components that read and write through it."""

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
"""Lowest bits of a byte address, which are 0 in that of a beat."""


def byte_address(beat: Value) -> Value:
    """Byte address of a beat, whose number in the memory is given."""
    return Cat(Const(0, OFFSET_BITS), beat)


def beat_number(address: Value) -> Value:
    """Number in the memory of the beat at a byte address."""
    return address[OFFSET_BITS:]


class ReadPort(wiring.Signature):
    """Reads of any length, as the requester sees them.

    Parameters
    ----------
    address : int
        Bits of a byte address.

    Members
    -------
    command : Out stream of ``address`` (`address` bits, a multiple of 16), ``beats`` (16 bits, from 1 up)
        The place to read. Commands may be given ahead of their beats.
    beats : In stream of 128 bits
        The beats of all commands, in order. After a bad response or a stop a beat on offer may be withdrawn, where no
        FIFO is between.
    """

    def __init__(self, address: int = ADDRESS_BITS) -> None:
        super().__init__({"command": Out(command(address)), "beats": In(BEATS)})


class WritePort(wiring.Signature):
    """Writes of any length, as the requester sees them.

    Parameters
    ----------
    address : int
        Bits of a byte address.

    Members
    -------
    command : Out stream of ``address`` (`address` bits, a multiple of 16), ``beats`` (16 bits, from 1 up)
        The place to write. While beats of an accepted command are missing, no other requester's command is accepted.
    beats : Out stream of 128 bits
        The beats of all commands, in order.
    """

    def __init__(self, address: int = ADDRESS_BITS) -> None:
        super().__init__({"command": Out(command(address)), "beats": Out(BEATS)})


class CommandFault(wiring.Signature):
    """A fault that ends a command, as the component sees it that meets it.

    Parameters
    ----------
    errors : type of IntEnum
        The core's error codes.
    address : int
        Bits of a byte address, at least 32.

    Members
    -------
    failed : Out(1)
        There was a fault; held until reset, with the other two.
    error : Out, as wide as the codes
        The first fault's code.
    address : Out, `address` bits
        The failing burst's byte address, or the offending value.
    """

    def __init__(self, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        super().__init__({"failed": Out(1), "error": Out(max(errors).bit_length()), "address": Out(address)})
