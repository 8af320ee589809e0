"""Message of a client: positions and integer scalars. Little-endian, version 1:

====== ========= ==========================================================================================
byte   type      what
====== ========= ==========================================================================================
0      4 bytes   ``FBTZ``
4      uint8     version, 1
5      uint8     P1
6      uint8     P2
7      uint8     0
8      uint32    round, counted from 0
12     uint32    client, counted from 0
16     uint64    position of the first perturbation
24     uint32    share: the client's weight in the average, 1 to 2**20
28     uint16    steps K
30     uint16    0
32     K times   a step: shift (uint8, 0 to 24), then P1 * P2 scalars (int8, -127 to 127)
...    uint32    CRC-32 of all bytes before
====== ========= ==========================================================================================

36 + K (1 + P1 P2) bytes: 240 for 12 steps with P1 = 2 and P2 = 8.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from ...errors import UserError
from ...zo.scalars import LARGEST, LARGEST_SHIFT, Scalars
from .configuration import LARGEST_SHARE

MAGIC = b"FBTZ"
VERSION = 1
_HEADER = struct.Struct("<4s4BIIQIHH")
_CHECK = struct.Struct("<I")


@dataclass(frozen=True)
class Message:
    """Message of a client after a round, with P1 (`first`), P2 (`second`) and the fields of the module's table."""

    round: int
    client: int
    position: int
    share: int
    first: int
    second: int
    steps: tuple[Scalars, ...]

    def to_bytes(self) -> bytes:
        """Encoded message, see the module."""
        fields = (self.round, self.client, self.position, self.share, len(self.steps))
        header = _HEADER.pack(MAGIC, VERSION, self.first, self.second, 0, *fields, 0)
        body = b"".join(struct.pack(f"<B{len(step.values)}b", step.shift, *step.values) for step in self.steps)
        return header + body + _CHECK.pack(zlib.crc32(header + body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Message:
        """Decode a message; every byte is checked: equal messages have equal bytes.

        Raises
        ------
        UserError
            If the message is malformed; the text tells the reason.
        """
        least = _HEADER.size + _CHECK.size
        if len(data) < least:
            raise UserError(f"{len(data)} bytes are no message, which has at least {least}")
        magic, version, first, second, zero, *fields, padding = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise UserError(f"it begins with {magic!r}, not {MAGIC!r}")
        if version != VERSION:
            raise UserError(f"it is of version {version}; this is {VERSION}")
        body, (check,) = data[: -_CHECK.size], _CHECK.unpack(data[-_CHECK.size :])
        if zlib.crc32(body) != check:
            raise UserError("its check sum is wrong: it was damaged in transmission")
        round_number, client, position, share, steps = fields
        size = 1 + first * second
        if len(body) != _HEADER.size + steps * size:
            raise UserError(f"{len(data)} bytes are not those of {steps} steps of {first} x {second} scalars")
        if zero or padding or not first or not second:
            raise UserError(f"its header is wrong: {first} x {second} scalars, reserved fields {zero} and {padding}")
        if not 1 <= share <= LARGEST_SHARE:
            raise UserError(f"its share {share} is not in 1 to {LARGEST_SHARE}")
        read = [
            Scalars(shift, tuple(values))
            for shift, *values in struct.iter_unpack(f"<B{first * second}b", body[_HEADER.size :])
        ]
        for number, scalars in enumerate(read):
            if scalars.shift > LARGEST_SHIFT or min(scalars.values) < -LARGEST:
                raise UserError(f"step {number} has shift {scalars.shift} and scalars from {min(scalars.values)} on")
        return cls(round_number, client, position, share, first, second, tuple(read))
