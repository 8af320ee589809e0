"""Constants of the memory bus for blocks, memory images and drivers: beat, page, commands, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..block import Field, Spec, Stream
from ..errors import UserError, check_range
from ..fixed import Format

BEAT = 16
"""Bytes of a beat of the cores' memory bus (128 bits)."""
PAGE = 4096
"""Bytes of a page: an AXI burst must not cross a multiple of it."""
ADDRESS_BITS = 40
"""Bits of a byte address on the memory bus of a core, unless it is generated with another number: 1 TiB,
all that the boards' processors map."""
BEAT_COUNT_BITS = 16
"""Width of a command's number of beats."""
INDEX_BITS = 24
"""Bits of the index of a sample or record."""


def reach(address: int) -> int:
    """Bits of a byte address inside a core without overflow, for `address` bits on the bus.

    A core adds to a bus address at most an index times the beats of a sample or record, or a 32-bit number of beats.
    """
    return max(address, INDEX_BITS + BEAT_COUNT_BITS + (BEAT - 1).bit_length()) + 1


def check_bus(data: int, address: int, burst: int) -> None:
    """Check widths of a beat and of a byte address, in bits, and the longest burst, in beats, against AXI4.

    Raises `UserError` if AXI4 does not allow a value, or `data` or `burst` is not a power of two.
    """
    if data & (data - 1) or not 32 <= data <= 1024:
        raise UserError(f"data = {data} bits: give a power of two from 32 to 1024")
    check_range("address", address, 16, 62)
    if burst & (burst - 1) or not 2 <= burst <= 256 or burst * data // 8 > PAGE:
        raise UserError(f"bursts of {burst} beats: give a power of two from 2 to 256, at most {PAGE} bytes")


def command_stream(address: int) -> Stream:
    """Input stream of transfer commands: a byte address of `address` bits and a number of beats."""
    return Stream(
        "in",
        (
            Field("address", Format(address, 0, False), doc="a multiple of a beat's bytes"),
            Field("beats", Format(BEAT_COUNT_BITS, 0, False), doc="1 or more"),
        ),
        doc="A transfer of so many beats from a byte address on.",
    )


def data_field(data: int) -> Field:
    """Stream field of one beat of `data` bits: an array of bytes, the lowest address first."""
    return Field("data", Format(8, 0, False), data // 8)


@dataclass(frozen=True, kw_only=True)
class ManagerSpec(Spec):
    """Common parameters and wires of the AXI4 managers.

    Parameters
    ----------
    data, address : int
        Width of a beat and of a byte address, in bits.
    """

    core: ClassVar[bool] = True
    buses: ClassVar[dict[str, str]] = {"bus": "m_axi_gmem"}
    wires: ClassVar[tuple[str, ...]] = ("idle", "error", "error_address")
    input_wires: ClassVar[tuple[str, ...]] = ("stop",)

    data: int = 128
    address: int = 32
