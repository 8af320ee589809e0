"""Choice of a zeroth-order core's random number generator."""

from ...golden.rng.gaussian_array import GaussianArraySpec
from ...golden.rng.generators import Generator
from .gaussian_array import GaussianArray
from .pezo import Pezo


def generator_of(spec: Generator) -> Pezo | GaussianArray:
    """Component of a generator; both kinds have the same ports."""
    return GaussianArray(spec) if isinstance(spec, GaussianArraySpec) else Pezo(spec)
