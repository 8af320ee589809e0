"""Random numbers with which updates are rounded stochastically, by parameter and batch."""

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
"""Bits of a generator's numbers."""


@dataclass(frozen=True, eq=False)
class UpdateNoise:
    """Numbers of a generator for each parameter of each batch.

    Parameters
    ----------
    urng : UrngSpec
        Generator of n numbers of at most `NOISE_BITS` - 1 bits a cycle.
    cycles : int
        Cycles of a batch: batch k begins at position k * cycles.
    places : array of int, (parameters,)
        Place of each parameter that is updated among a batch's numbers, n of each cycle.
    """

    urng: UrngSpec
    cycles: int
    places: Integers

    @classmethod
    def by_parameter(cls, urng: UrngSpec, parameters: int) -> UpdateNoise:
        """Give parameter i number i mod n of cycle i // n."""
        return cls(urng, -(-parameters // urng.n), np.arange(parameters))

    @classmethod
    def by_image(cls, mapping: AdapterMapping, bits: int = NOISE_NUMBER_BITS) -> UpdateNoise:
        """Give parameters their numbers in the order in which the core updates their image.

        The last number of a cycle is not used: as many as an update takes are a power of two, which `UrngSpec` refuses.
        """
        values = mapping.words_per_cycle * BEAT // 2
        cycle, value = np.divmod(update_order(mapping), values)
        urng = UrngSpec(n=values + 1, bits=bits)
        return cls(urng, mapping.update_cycles, cycle * urng.n + value)

    def numbers(self, batch: int) -> Integers:
        """Uniform integers of `NOISE_BITS` bits for the updated parameters in a batch, (parameters,)."""
        positions = batch * self.cycles + np.arange(self.cycles)
        contents = self.urng.contents(positions).reshape(-1)[self.places]
        # numbers are odd: the lowest bit is one, which centres them in the bits below
        numbers: Integers = (2 * contents + 1) << (NOISE_BITS - self.urng.bits - 1)
        return numbers
