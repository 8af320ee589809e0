"""Size of the core that streams transformers: its array, buffers and memory port, without a network."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...axi.bus import BEAT
from ...errors import UserError

PORT_SHARE = 0.7
"""Part of its peak that a memory port gives, as in the simulated memory of the cores."""
LANES = 4
"""Values a cycle of the functions behind the array, and sums a cycle that leave it."""
MOST_QUERIES = 64
"""Most queries of a head whose scores are on the chip at once."""
_CODES = 2 * BEAT
"""Codes of a beat, as many as there are dequantisers."""
_VALUES, _WIDE_VALUES = 12_288 * 32, 4_096 * 16


@dataclass(frozen=True)
class CoreSize:
    """Array, buffers and ports of a core.

    Parameters
    ----------
    lanes, columns : int
        Inputs and outputs of a tile.
    rows : int
        Rows of the activation memory, `lanes` values of Q8.16 each.
    wide_rows : int
        Rows of the memory of sums and norms' inputs, `columns` values of Q11.16 each.
    sums : int
        Rows of partial sums of a group of columns; there are two groups.
    ports : int
        Memory ports of `BEAT` bytes a cycle at their peak, over which the stream of weights comes.
    exponentials, norm_lanes : int
        Exponentials and values of a norm a cycle.

    Raises
    ------
    UserError
        If a size is not positive.
    """

    lanes: int = 32
    columns: int = 16
    rows: int = _VALUES // 32
    wide_rows: int = _WIDE_VALUES // 16
    sums: int = 256
    ports: int = 1
    exponentials: int = 4
    norm_lanes: int = 8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise UserError(f"{name} = {value}: a core has at least 1")

    @classmethod
    def of_array(cls, text: str, ports: int = 1) -> CoreSize:
        """Make a core of an array as text, lanes x columns, with buffers of as many values as the default's.

        Raises
        ------
        UserError
            If it is not of that form, or a size is out of range.
        """
        found = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text)
        if not found or not all(0 < int(one) <= 1024 for one in found.groups()):
            raise UserError(f"an array is lanes x columns, such as {', '.join(ARRAYS)}, not {text!r}")
        lanes, columns = map(int, found.groups())
        return cls(lanes, columns, max(_VALUES // lanes, 1), max(_WIDE_VALUES // columns, 1), ports=ports)

    @property
    def multipliers(self) -> int:
        """Multiply-accumulates a cycle."""
        return self.lanes * self.columns

    @property
    def port_bytes(self) -> float:
        """Bytes a cycle that a port gives."""
        return BEAT * PORT_SHARE

    @property
    def stream_bytes(self) -> float:
        """Bytes a cycle of the stream of weights: of all ports together, which are joined to a beat a cycle."""
        return min(self.port_bytes * self.ports, BEAT)

    @property
    def load_cycles(self) -> int:
        """Cycles in which a tile of one side is loaded: two lanes of it a cycle."""
        return self.lanes // 2

    @property
    def dequantisation_cycles(self) -> int:
        """Cycles in which the codes of a tile, which both sides share, are dequantised: those of a beat."""
        return -(-self.multipliers // _CODES)


ARRAYS = ("32x16", "32x32", "64x32")
"""Arrays that reports compare: 512, 1,024 and 2,048 multipliers."""
DEFAULT_SIZE = CoreSize()
