"""RTL of the generators that a core which trains by zeroth order can have."""

from ...golden.rng.gaussian_array import GaussianArraySpec
from ...golden.rng.generators import Generator
from .gaussian_array import GaussianArray
from .pezo import Pezo


def generator_of(spec: Generator) -> Pezo | GaussianArray:
    """Component of a generator: the two have the same ports."""
    return GaussianArray(spec) if isinstance(spec, GaussianArraySpec) else Pezo(spec)
