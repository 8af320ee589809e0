"""Read commands for an image of any number of beats."""

from amaranth.hdl import Const, Module, Mux, Signal, Value

from ...golden.axi.bus import BEAT_COUNT_BITS
from .memory_port import beat_number, byte_address

CHUNK = 1 << (BEAT_COUNT_BITS - 1)
"""Number of beats in each command but the last, if an image takes several commands."""


class ChunkedRead:
    """Address and beats of the next read command: the whole image, or a chunk if it exceeds the range of a command.

    The registers belong to the module that reads. If every image fits in a command, only these two registers remain.

    Parameters
    ----------
    beats : int
        Beats of the largest image.
    port : Value
        Byte address of the read port's command; only the width matters.

    Attributes
    ----------
    address : Value
        Byte address of the command.
    beats : Value
        Beats of the command.
    further : Value
        High if another chunk of the image follows.
    """

    def __init__(self, beats: int, port: Value) -> None:
        self._left = Signal(range(beats + 1), name="left", reset_less=True)
        self._place = Signal.like(beat_number(port), name="place", reset_less=True)
        self.address = byte_address(self._place)
        self.beats: Value = self._left
        self.further: Value = Const(0)
        if len(self._left) > BEAT_COUNT_BITS:
            self.beats, self.further = Mux(self._left > CHUNK, CHUNK, self._left), self._left > CHUNK

    def begin(self, m: Module, address: Value, beats: int | Value) -> None:
        """Load the first chunk of an image, in the module's current condition."""
        m.d.sync += [self._place.eq(beat_number(address)), self._left.eq(beats)]

    def advance(self, m: Module) -> None:
        """Go to the next chunk, in the module's current condition, after the command was accepted."""
        m.d.sync += [self._place.eq(self._place + CHUNK), self._left.eq(self._left - CHUNK)]
