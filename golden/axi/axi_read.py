"""`axi_read`: reads of any length from an AXI4 bus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..block import Field, Spec, Stream, Words
from ..errors import UserError
from ..fixed import Format
from .bus import check_bus, command_stream, data_field


@dataclass(frozen=True, kw_only=True)
class AxiReadSpec(Spec):
    """Parameters of `axi_read`.

    Parameters
    ----------
    data, address : int
        Bits.
    burst : int
        Most beats of a burst, a power of two. Bursts end at multiples of this.
    depth : int
        Beats of the FIFO, a power of two, at least two bursts.
    """

    name: ClassVar[str] = "axi_read"
    summary: ClassVar[str] = "reads of any length from an AXI4 bus, bursts issued ahead"
    core: ClassVar[bool] = True
    buses: ClassVar[dict[str, str]] = {"bus": "m_axi_gmem"}
    wires: ClassVar[tuple[str, ...]] = ("idle", "error", "error_address")
    input_wires: ClassVar[tuple[str, ...]] = ("stop",)

    data: int = 128
    address: int = 32
    burst: int = 64
    depth: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bus(self.data, self.address, self.burst)
        if self.depth & (self.depth - 1) or self.depth < 2 * self.burst:
            raise UserError(f"a FIFO of {self.depth} beats: give a power of two, at least two bursts of {self.burst}")

    def streams(self) -> dict[str, Stream]:
        """Commands, and the beats that they ask for."""
        last = Field("last", Format(1, 0, False))
        return {"command": command_stream(self.address), "o": Stream("out", (data_field(self.data), last))}

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Not from the inputs alone.

        Raises
        ------
        UserError
            Always: what comes out is what the memory holds.
        """
        raise UserError("axi_read gives what a memory holds, which no capture has: use fabtune verify axi_read")
