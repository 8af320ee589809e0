"""Generators that a core which trains by zeroth order can have: sources of perturbations with load, mark and replay."""

from .gaussian_array import GaussianArraySpec
from .pezo import PezoSpec

Generator = PezoSpec | GaussianArraySpec
