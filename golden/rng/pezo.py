"""`pezo`: perturbation generator as an AXI4-Stream core, in the paper's three configurations (PeZO, table 6).

On the fly: `urng` with the factor of `scale`. Pool: `pool`. Both can return to the start of a perturbation, to draw it
again for plus, minus and the update. The pool stores a second address for this. The array on the fly rotates its state
through a shift register with a copy: a mark or a replay takes a cycle a state bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..block import Spec, Stream, Words
from ..fixed import Integers
from ..memories.plan import MemoryShape
from .pool import PoolSpec, replay_ports, replayed, replayed_cycles
from .scale import ScaleSpec
from .urng import state_ports


@dataclass(frozen=True, kw_only=True)
class PezoSpec(Spec):
    """Parameters and model of `pezo`.

    Parameters
    ----------
    strategy : "on-the-fly" or "pool"
        The paper's reuse strategy.
    scale : ScaleSpec
        Array and factors of the strategy on the fly: `scale.urng.n`, `scale.mode`, ...
    pool : PoolSpec
        Pool of the strategy `pool`: `pool.size`, ...
    replay : bool
        True if the array can return to a mark; the pool always can.
    """

    name: ClassVar[str] = "pezo"
    summary: ClassVar[str] = "the perturbation generator as an AXI4-Stream core: pool, or on the fly with 8 or 14 bits"
    core: ClassVar[bool] = True
    presets: ClassVar[dict[str, dict[str, object]]] = {
        "pool": {"strategy": "pool"},
        "otf8": {"scale.urng.bits": 8},
        "otf14": {"scale.urng.bits": 14},
    }

    strategy: Literal["on-the-fly", "pool"] = "on-the-fly"
    scale: ScaleSpec = field(default_factory=ScaleSpec)
    pool: PoolSpec = field(default_factory=PoolSpec)
    replay: bool = True

    @property
    def source(self) -> ScaleSpec | PoolSpec:
        return self.pool if self.strategy == "pool" else self.scale

    @property
    def can_replay(self) -> bool:
        return self.replay or self.strategy == "pool"

    @property
    def state_bits(self) -> int:
        return len(self.serial(0))

    @property
    def replay_cycles(self) -> int:
        """Cycles without a word after a mark or a replay."""
        return self.state_bits if self.strategy == "on-the-fly" and self.replay else 0

    def serial(self, position: int) -> Integers:
        """Bits that load a position, in order of transmission: the factor's generator, then the array."""
        if self.strategy == "pool":
            return self.pool.serial(position)
        return np.concatenate([self.scale.serial(position), self.scale.urng.serial(position)])

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.source.memories

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return self.source.roms()

    # -- as a source of perturbations ------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        return self.source.width

    @property
    def fraction_bits(self) -> int:
        return self.source.fraction_bits

    @property
    def period(self) -> int:
        return self.source.period

    @property
    def largest(self) -> int:
        return self.source.largest

    @property
    def base(self) -> NDArray[np.int32]:
        return self.source.base

    @property
    def rotates(self) -> bool:
        return self.source.rotates

    def draw(self, position: int, cycles: int) -> NDArray[np.int32]:
        return self.source.draw(position, cycles)

    # -- the block -------------------------------------------------------------------------------------------------

    @property
    def latency(self) -> int:
        """Cycles from reset to the first word; an array with replay first stores a copy of its state."""
        return self.replay_cycles

    def streams(self) -> dict[str, Stream]:
        parts = self.pool.streams() if self.strategy == "pool" else self.scale.urng.streams()
        fields = parts["o"].fields
        if self.strategy == "on-the-fly":
            fields += self.scale.streams()["o"].fields
        return {
            **state_ports(),
            "o": Stream(
                "out", fields, doc="Numbers and, on the fly, their common factor, in the formats of `spec.streams`."
            ),
            **(replay_ports() if self.can_replay else {}),
        }

    def words_at(self, positions: Integers) -> Words:
        if self.strategy == "pool":
            return {"number": self.pool.words_at(positions)}
        factors = self.scale.table[positions % len(self.scale.table)]
        return {"number": self.scale.urng.words_at(positions), "scale": factors[:, None]}

    def scaled(self, words: Words) -> Integers:
        """Scaled numbers, as from `draw`, of words of ``m_axis``: (words, n)."""
        if self.strategy == "pool":
            return words["number"]
        product: Integers = (2 * words["number"] + 1) * words["scale"]
        return product

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        return {"o": self.words_at(replayed(inputs, words))}

    def cycles(self, inputs: dict[str, Words], words: int) -> int:
        """Cycles of `words` words: one per word, and `replay_cycles` for each mark or replay before the last word."""
        return replayed_cycles(inputs, words, self.replay_cycles)
