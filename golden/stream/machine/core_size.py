"""Size of the streaming core: array, buffers and memory ports."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...axi.bus import BEAT
from ...errors import UserError

PORT_SHARE = 0.7
"""Fraction of a memory port's peak rate, as in the simulated memory of the cores."""
LANES = 4
"""Values per cycle of the functions after the array, and sums per cycle out of the array."""
MOST_QUERIES = 64
"""Largest number of a head's queries with scores on the chip."""
_CODES = 2 * BEAT
"""Codes of a beat, and number of dequantisers."""
_VALUES, _WIDE_VALUES = 12_288 * 32, 4_096 * 16


@dataclass(frozen=True)
class CoreSize:
    """Array, buffers and ports of a core.

    Raises `UserError` if a size is not positive.

    Parameters
    ----------
    lanes, columns : int
        Inputs and outputs of a tile.
    rows : int
        Rows of the activation memory, `lanes` values of Q8.16 each.
    wide_rows : int
        Rows of the wide memory for sums and norm inputs, `columns` values of Q11.16 each.
    sums : int
        Rows of partial sums of a group of columns; the core holds two groups.
    ports : int
        Memory ports of the weight stream, `BEAT` bytes per cycle at their peak.
    exponentials, norm_lanes : int
        Exponentials per cycle, and values of a norm per cycle.
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
        """Core with an array from text, lanes x columns, such as ``32x16``; buffers have the default number of values.

        Raises `UserError` if the text has another form, or a size is not in 1 to 1,024.
        """
        match = re.fullmatch(r"(\d{1,4})x(\d{1,4})", text)
        if not match or not all(0 < int(size) <= 1024 for size in match.groups()):
            raise UserError(f"an array is lanes x columns, such as {', '.join(ARRAYS)}, not {text!r}")
        lanes, columns = map(int, match.groups())
        return cls(lanes, columns, max(_VALUES // lanes, 1), max(_WIDE_VALUES // columns, 1), ports=ports)

    @property
    def multipliers(self) -> int:
        return self.lanes * self.columns

    @property
    def port_bytes(self) -> float:
        return BEAT * PORT_SHARE

    @property
    def stream_bytes(self) -> float:
        """Bytes per cycle of the weight stream: all ports together, but at most a beat."""
        return min(self.port_bytes * self.ports, BEAT)

    @property
    def load_cycles(self) -> int:
        """Cycles to load a tile of one side, two lanes per cycle."""
        return self.lanes // 2

    @property
    def dequantisation_cycles(self) -> int:
        """Cycles to dequantise a tile's codes for both sides, a beat of codes per cycle."""
        return -(-self.multipliers // _CODES)


ARRAYS = ("32x16", "32x32", "64x32")
"""Arrays that reports compare: 512, 1,024 and 2,048 multipliers."""
DEFAULT_SIZE = CoreSize()
