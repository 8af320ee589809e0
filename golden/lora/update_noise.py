"""Random numbers for the stochastic rounding of updates, by parameter and batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..axi.bus import BEAT
from ..fixed import Integers
from ..rng.urng import UrngSpec
from .adapters import NOISE_BITS
from .mapping import AdapterMapping
from .memory_layout import update_order

NOISE_NUMBER_BITS = 14
"""Bits of the generator's numbers."""


@dataclass(frozen=True, eq=False)
class UpdateNoise:
    """Assignment of a generator's numbers to the updated parameters of each batch.

    Parameters
    ----------
    urng : UrngSpec
        Generator of n numbers of at most `NOISE_BITS` - 1 bits a cycle.
    cycles : int
        Cycles of a batch: batch k begins at position k * cycles.
    places : array of int, (updated parameters,)
        Index of each updated parameter's number among the n * cycles numbers of a batch.
    """

    urng: UrngSpec
    cycles: int
    places: Integers

    @classmethod
    def by_parameter(cls, urng: UrngSpec, parameters: int) -> UpdateNoise:
        """Parameter i takes number i mod n of cycle i // n."""
        return cls(urng, -(-parameters // urng.n), np.arange(parameters))

    @classmethod
    def by_image(cls, mapping: AdapterMapping, bits: int = NOISE_NUMBER_BITS) -> UpdateNoise:
        """Parameters take numbers in the order of the core's update writes.

        An update takes a power of two of numbers per cycle, and `UrngSpec` refuses such an n: so the last number of a
        cycle is not used.
        """
        values = mapping.words_per_cycle * BEAT // 2
        cycle, value = np.divmod(update_order(mapping), values)
        urng = UrngSpec(n=values + 1, bits=bits)
        return cls(urng, mapping.update_cycles, cycle * urng.n + value)

    def numbers(self, batch: int) -> Integers:
        """Uniform integers of `NOISE_BITS` bits for a batch, (updated parameters,)."""
        positions = batch * self.cycles + np.arange(self.cycles)
        contents = self.urng.contents(positions).reshape(-1)[self.places]
        # 2 c + 1 is the centre of the interval of content c
        numbers: Integers = (2 * contents + 1) << (NOISE_BITS - self.urng.bits - 1)
        return numbers
