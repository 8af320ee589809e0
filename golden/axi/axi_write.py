"""`axi_write`: parameters and streams of the AXI4 write manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..block import Stream, Words
from ..errors import UserError
from ..memories.plan import MemoryShape, fifo_memory
from .bus import ManagerSpec, check_bus, command_stream, data_field


@dataclass(frozen=True, kw_only=True)
class AxiWriteSpec(ManagerSpec):
    """Parameters of `axi_write`.

    Parameters
    ----------
    data : int
        Width of a beat in bits: a power of two from 32 to 1024, as AXI allows.
    address : int
        Width of a byte address in bits, 16 to 62.
    burst : int
        Beats of a burst, at most: a power of two from 2 to 256, up to 4 KiB. Bursts end at multiples of it.
    depth : int
        Depth of the FIFO in beats: a power of two, at least two bursts.
    outstanding : int
        Depth of the FIFO of bursts without a response: a power of two from 2. Its output register holds one more burst:
        at most ``outstanding + 1`` bursts are outstanding.
    """

    name: ClassVar[str] = "axi_write"
    summary: ClassVar[str] = "writes of any length to an AXI4 bus, a burst issued once all of it is buffered"

    burst: int = 16
    depth: int = 128
    outstanding: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bus(self.data, self.address, self.burst)
        least_of = {"beats in the FIFO": (self.depth, 2 * self.burst), "bursts outstanding": (self.outstanding, 2)}
        for what, (number, least) in least_of.items():
            if number & (number - 1) or number < least:
                raise UserError(f"{number} {what}: give a power of two from {least} up")

    @property
    def most_outstanding(self) -> int:
        return self.outstanding + 1

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        offset = (self.data // 8).bit_length() - 1
        return (
            fifo_memory("beats written", self.depth, self.data),
            fifo_memory("bursts written", self.outstanding, self.address - offset),
        )

    def streams(self) -> dict[str, Stream]:
        return {
            "command": command_stream(self.address),
            "i": Stream(
                "in",
                (data_field(self.data),),
                doc="The beats of all commands, in order; they may come before their command.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Raise `UserError`: the output is the contents of a memory."""
        raise UserError("axi_write fills a memory, which no capture has: use fabtune verify axi_write")
