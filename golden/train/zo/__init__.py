"""Zeroth-order fine-tuning: sources of perturbations, an optimiser, parameters as integers, and the tile's own loop."""

from .optimiser import MeZO, PeZO, ZerothOrder
from .periodic import Periodic
from .sources import CachedPerturbations, Gaussian, Perturbations, Rademacher, Uniform

__all__ = [
    "CachedPerturbations",
    "Gaussian",
    "MeZO",
    "PeZO",
    "Periodic",
    "Perturbations",
    "Rademacher",
    "Uniform",
    "ZerothOrder",
]
