"""Interfaces between a memory system and the components that read and write through it."""

from __future__ import annotations

from enum import IntEnum

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from .bursts import command

BEATS = stream.Signature(8 * BEAT)
"""Stream of beats of 128 bits."""


class ReadPort(wiring.Signature):
    """Reads of any length, as the requester sees them.

    Members
    -------
    command : Out stream of ``address`` (32 bits, a multiple of a beat's 16 bytes), ``beats`` (16 bits, from 1 up)
        The place to read. Commands may be given ahead of their beats.
    beats : In stream of 128 bits
        The beats of all commands, in order. After a bad response or a stop a beat on offer may be withdrawn, where no
        FIFO is between.
    """

    def __init__(self) -> None:
        super().__init__({"command": Out(command(32)), "beats": In(BEATS)})


class WritePort(wiring.Signature):
    """Writes of any length, as the requester sees them.

    Members
    -------
    command : Out stream of ``address`` (32 bits, a multiple of a beat's 16 bytes), ``beats`` (16 bits, from 1 up)
        The place to write. While beats of an accepted command are missing, no other requester's command is accepted.
    beats : Out stream of 128 bits
        The beats of all commands, in order.
    """

    def __init__(self) -> None:
        super().__init__({"command": Out(command(32)), "beats": Out(BEATS)})


class Fault(wiring.Signature):
    """A fault that ends a command, as the component sees it that meets it.

    Parameters
    ----------
    errors : type of IntEnum
        The core's error codes.

    Members
    -------
    failed : Out(1)
        There was a fault; held until reset, with the other two.
    error : Out, as wide as the codes
        The first fault's code.
    address : Out(32)
        The failing burst's byte address, or the offending value.
    """

    def __init__(self, errors: type[IntEnum]) -> None:
        super().__init__({"failed": Out(1), "error": Out(max(errors).bit_length()), "address": Out(32)})
