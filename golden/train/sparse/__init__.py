"""Sensitive-sparse zeroth order: a few sensitive weights a layer in 16 bits, which are tuned, and the rest in NF4."""

from .linear import SparseLinear
from .masks import Mask, coverage, overlap, random_mask, sensitive, squared_gradients
from .model import densify, sparsify

__all__ = [
    "Mask",
    "SparseLinear",
    "coverage",
    "densify",
    "overlap",
    "random_mask",
    "sensitive",
    "sparsify",
    "squared_gradients",
]
