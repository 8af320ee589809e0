"""Sensitive-sparse zeroth order: a few weights per layer are tuned in 16 bits, the others are frozen in NF4."""

from .linear import SparseLinear, densify, sparsify
from .masks import Mask, coverage, overlap, random_mask, sensitive, squared_gradients

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
