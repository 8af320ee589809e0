"""Zeroth-order fine-tuning: sources of perturbations, an optimiser, parameters as integers, and the tile's own loop."""

from .optimiser import MeZO, PeZO, ZerothOrder
from .periodic import Periodic
from .sources import Gaussian, Kept, Perturbations, Rademacher, Uniform

__all__ = ["Gaussian", "Kept", "MeZO", "PeZO", "Periodic", "Perturbations", "Rademacher", "Uniform", "ZerothOrder"]
