"""Zeroth-order fine-tuning: perturbations, an optimiser, integer parameters, and a core's integers from floats."""

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
