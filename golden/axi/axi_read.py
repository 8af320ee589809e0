"""`axi_read`: reads of any length from an AXI4 bus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..block import HOST, Field, Phase, Spec, Step, Stream, Words
from ..errors import UserError
from ..fixed import Format, Integers
from .bus import check_bus, command_stream, data_field

REGION = 1 << 15
"""Bytes of the memory that a scenario uses."""


def random_commands(rng: np.random.Generator, base: int, size: int, beats: int) -> Words:
    """Commands for about so many beats, of `size` bytes each, somewhere in the region from `base` on."""
    places = REGION // size
    lengths: list[int] = []
    while sum(lengths) < beats:
        longest = int(rng.choice([1, 4, 40, 200]))
        lengths.append(int(rng.integers(1, min(longest, places // 2), endpoint=True)))
    firsts = np.array([rng.integers(0, places - length, endpoint=True) for length in lengths])
    return {"address": (base + firsts * size)[:, None], "beats": np.array(lengths)[:, None]}


def random_base(rng: np.random.Generator, address: int) -> int:
    """Where a scenario's region lies."""
    return int(rng.integers(0, 1 << (address - 15))) * REGION


def places_of(commands: Words, base: int, size: int) -> Integers:
    """Indices into the region of the bytes of all commands' beats, (beats, size)."""
    starts, lengths = (commands[name][:, 0] for name in ("address", "beats"))
    beats = np.concatenate([start - base + size * np.arange(n) for start, n in zip(starts, lengths, strict=True)])
    places: Integers = beats[:, None] + np.arange(size)
    return places


QUIET = (Step("get", "idle"), Step("get", "error"), Step("get", "error_address"))
"""How a scenario ends: nothing in progress, no error."""
QUIET_ANSWERS = {"response": np.zeros((3, 1), np.int64), "value": np.array([[1], [0], [0]])}


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

    def scenario(self, rng: np.random.Generator, words: int) -> list[Phase]:
        """Random commands to a random memory, then others without a reset, to a memory that has changed."""
        base, size = random_base(rng, self.address), self.data // 8
        phases = []
        for reset in (True, False):
            memory = rng.integers(0, 256, REGION)
            commands = random_commands(rng, base, size, words)
            data = memory[places_of(commands, base, size)]
            last = np.zeros((len(data), 1), np.int64)
            last[np.cumsum(commands["beats"][:, 0]) - 1] = 1
            expected = {"o": {"data": data, "last": last}, HOST: QUIET_ANSWERS}
            phases.append(
                Phase({"command": commands}, expected, reset, quiet=True, memory={base: memory}, script=QUIET)
            )
        return phases
