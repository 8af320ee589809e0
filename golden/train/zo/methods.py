"""Zeroth-order methods and sources of perturbations by name, as on the command line.

Default settings are the best of a search for each model, see docs/papers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import UserError
from ...rng.pezo import PezoSpec
from ...settings import build
from ...zo.deltas import MOST_FRACTION_BITS
from .periodic import Periodic
from .sources import CachedPerturbations, Gaussian, Perturbations, Rademacher, Uniform

METHODS = {"mezo": "gaussian", "pezo-pool": "pool", "pezo-otf": "otf8", "sparse-zo": "otf8"}
"""Default generator of each method."""
_INDEPENDENT: dict[str, Callable[[int], Perturbations]] = {
    "gaussian": Gaussian,
    "rademacher": Rademacher,
    "uniform": Uniform,
    "integers": lambda seed: Uniform(seed, half_width=128),
}
"""Constructors of independent sources from a seed; "integers" are the unscaled numbers of an 8-bit generator."""
CORE_PARAMETERS = {"pool": ("pool.p=33", "pool.size=16863")}
"""A core's parameters of a preset: a pool of 511 rows, which gives a layer's perturbation full rank.

With an even count of numbers per cycle, weights of different inputs would move together, see `check_full_rank`. Rows of
32 numbers take as many block RAMs as rows of 33.
"""
GENERATORS = (*_INDEPENDENT, *PezoSpec.presets)


def source_of(
    generator: str, seed: int = 0, settings: Sequence[str] = (), fraction: int | None = None
) -> Perturbations:
    """New source of perturbations by name.

    Parameters
    ----------
    generator : str
        One of `GENERATORS`.
    seed : int
        Seed of independent numbers. A periodic generator has no seed, see `start_of`.
    settings : sequence of str
        Parameters of `PezoSpec` as ``NAME=VALUE``.
    fraction : int, optional
        Largest number of fraction bits of a periodic generator, see `Periodic`.

    Raises
    ------
    UserError
        If the generator or a parameter is unknown.
    """
    if generator in _INDEPENDENT:
        if settings:
            raise UserError(f"{generator} numbers have no parameters: {settings[0]} is for a preset of pezo")
        return CachedPerturbations(_INDEPENDENT[generator](seed))
    if generator not in PezoSpec.presets:
        raise UserError(f"there is no generator {generator!r}; there are: {', '.join(GENERATORS)}")
    spec = build(PezoSpec, settings, generator)
    assert isinstance(spec, PezoSpec)
    short = fraction is not None and fraction < spec.fraction_bits
    return Periodic(spec, fraction=fraction if short else None)


def integer_source_of(generator: str, settings: Sequence[str] = ()) -> Periodic:
    """New periodic source by name, narrowed to at most `MOST_FRACTION_BITS` fraction bits.

    Raises
    ------
    UserError
        As `source_of` does, and if the generator gives floats.
    """
    source = source_of(generator, 0, settings, MOST_FRACTION_BITS)
    if not isinstance(source, Periodic):
        known = ", ".join(PezoSpec.presets)
        raise UserError(f"{generator} numbers are floats, which cannot be added to integers: take one of {known}")
    return source


def start_of(source: Perturbations, seed: int) -> int:
    """Position of a run's first perturbation: random by the seed in a periodic generator's sequence, else 0."""
    return int(np.random.default_rng([seed, 4]).integers(source.spec.period)) if isinstance(source, Periodic) else 0


EPS = 1e-3
"""Length of a perturbation."""
CORE_EPS = 2.0**-10
"""Length of a perturbation on a core, a power of two."""


@dataclass(frozen=True)
class ZoDefaults:
    """Steps, batch and learning rates.

    Parameters
    ----------
    rate : float
        Learning rate for all weights.
    sparse_rate : float
        Learning rate for sensitive weights alone: with fewer weights a perturbation is shorter, and a step may be
        longer.
    core_rate : float, optional
        Learning rate in a core's integers where another is better: folding batch norm into the weights changes
        gradients.
    """

    steps: int
    batch: int
    rate: float
    sparse_rate: float
    core_rate: float | None = None


_DEFAULTS = {
    "digits": ZoDefaults(2000, 20, 5e-4, 1e-2),
    "fan": ZoDefaults(500, 20, 1e-4, 2e-3, core_rate=1e-3),
    "vit-digits": ZoDefaults(2000, 20, 2e-4, 2e-3),
    "transformer": ZoDefaults(500, 16, 4e-5, 4e-4),
}
_OTHER = ZoDefaults(1000, 20, 2e-4, 2e-3)


def zo_defaults(model: str) -> ZoDefaults:
    """Defaults of a preset network, of "transformer", or of any other model."""
    return _DEFAULTS.get(model, _OTHER)
