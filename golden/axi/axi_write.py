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
        Width of a beat and of a byte address, in bits. Refused: no power of two from 32 to 1024: AXI has no others.
    address : int
        Width of a beat and of a byte address, in bits, 16 to 62.
    burst : int
        Most beats of a burst, a power of two. Bursts end at multiples of it. Refused: no power of two from 2 to 256, or
        more than 4 KiB.
    depth : int
        Depth of the FIFO in beats, a power of two, at least two bursts. Refused: no power of two, or less than two
        bursts.
    outstanding : int
        Depth of the FIFO of bursts without a response, a power of two. With its output register one more: at most
        ``outstanding + 1`` bursts are outstanding. Refused: no power of two from 2 up.
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
        """Most bursts that are outstanding at once."""
        return self.outstanding + 1

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """FIFOs of beats and of the bursts that are outstanding."""
        offset = (self.data // 8).bit_length() - 1
        return (
            fifo_memory("beats written", self.depth, self.data),
            fifo_memory("bursts written", self.outstanding, self.address - offset),
        )

    def streams(self) -> dict[str, Stream]:
        """Streams: `command` takes transfers, `i` takes their beats."""
        return {
            "command": command_stream(self.address),
            "i": Stream(
                "in",
                (data_field(self.data),),
                doc="The beats of all commands, in order; they may come before their command.",
            ),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Refuse: the output is the content of a memory.

        Raises
        ------
        UserError
            Always.
        """
        raise UserError("axi_write fills a memory, which no capture has: use fabtune verify axi_write")
