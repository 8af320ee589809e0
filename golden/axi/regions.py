"""Device memory of a job: regions with an initial image, and their placement.

The host driver, benches and the compiled simulator take regions. A board's allocator chooses the addresses of its
buffers; a bench or simulator places regions with `JobMemory`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .bus import BEAT

Bytes = NDArray[np.uint8]

ALIGNMENT = 4096
"""Alignment of regions in bytes: no burst crosses from one region into the next."""


@dataclass(frozen=True, eq=False)
class Region:
    """A contiguous part of device memory of `size` bytes; `register` holds its byte address.

    The host writes the `image`, (size,), before the command; the image is empty for a region first written by the core.
    """

    register: str
    size: int
    image: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))

    @classmethod
    def containing(cls, register: str, image: NDArray[np.uint8]) -> Region:
        """Region with an image of any shape, flattened."""
        return cls(register, image.size, image.reshape(-1))


class JobMemory:
    """Regions placed one after the other, each on a multiple of `ALIGNMENT`, from byte address `base`.

    Attributes
    ----------
    addresses : dict of str to int
        Byte address of each region, by name.
    regions : dict of str to Region
        Placed regions, by name.
    images : dict of int to array of uint8
        Initial contents by address, without empty ones.
    end : int
        First free address.
    """

    def __init__(self, base: int = 0) -> None:
        self.addresses: dict[str, int] = {}
        self.regions: dict[str, Region] = {}
        self.images: dict[int, Bytes] = {}
        self.end = base

    def place(self, region: Region, name: str = "") -> int:
        """Place a region under a name, by default its register's; return its address."""
        address = self.addresses[name or region.register] = self.reserve(region.size)
        self.regions[name or region.register] = region
        if region.image.size:
            self.images[address] = region.image
        return address

    @property
    def image(self) -> Bytes:
        """Contents from address 0 on, in whole beats to the end of the last image; gaps are 0."""
        end = max((address + image.size for address, image in self.images.items()), default=0)
        contents = np.zeros(-(-end // BEAT) * BEAT, np.uint8)
        for address, image in self.images.items():
            contents[address : address + image.size] = image
        return contents

    def reserve(self, size: int) -> int:
        address = self.end
        self.end += -(-size // ALIGNMENT) * ALIGNMENT
        return address
