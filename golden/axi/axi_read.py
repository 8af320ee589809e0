"""`axi_read`: parameters and streams of the AXI4 read manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..block import Field, Stream, Words
from ..errors import UserError
from ..fixed import Format
from ..memories.plan import MemoryShape, fifo_memory
from .bus import ManagerSpec, check_bus, command_stream, data_field


@dataclass(frozen=True, kw_only=True)
class AxiReadSpec(ManagerSpec):
    """Parameters of `axi_read`.

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
    """

    name: ClassVar[str] = "axi_read"
    summary: ClassVar[str] = "reads of any length from an AXI4 bus, bursts issued ahead"

    burst: int = 64
    depth: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bus(self.data, self.address, self.burst)
        if self.depth & (self.depth - 1) or self.depth < 2 * self.burst:
            raise UserError(f"a FIFO of {self.depth} beats: give a power of two, at least two bursts of {self.burst}")

    @property
    def most_outstanding(self) -> int:
        """Largest number of outstanding bursts, of one beat each: a request needs free space for the longest burst."""
        return self.depth - self.burst + 1

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        offset = (self.data // 8).bit_length() - 1
        return (
            fifo_memory("beats read", self.depth, self.data + 1),
            fifo_memory("bursts read", self.depth, self.address - offset + 1),
        )

    def streams(self) -> dict[str, Stream]:
        last = Field("last", Format(1, 0, False))
        return {
            "command": command_stream(self.address),
            "o": Stream("out", (data_field(self.data), last), doc="The beats of all commands, in order."),
        }

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Raise `UserError`: the output depends on the contents of a memory."""
        raise UserError("axi_read gives what a memory holds, which no capture has: use fabtune verify axi_read")
