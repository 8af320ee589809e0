"""Generators of zeroth-order cores: perturbation sources with load, mark and replay."""

from .gaussian_array import GaussianArraySpec
from .pezo import PezoSpec

Generator = PezoSpec | GaussianArraySpec
