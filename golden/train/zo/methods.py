"""Zeroth-order methods and sources by name: what ``fabtune`` can be asked to tune with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import UserError
from ...rng.pezo import PezoSpec
from ...settings import build
from .periodic import Periodic
from .sources import CachedPerturbations, Gaussian, Perturbations, Rademacher, Uniform

METHODS = {"mezo": "gaussian", "pezo-pool": "pool", "pezo-otf": "otf8", "sparse-zo": "otf8"}
"""Method to the generator that it draws from where no other is named."""
_INDEPENDENT: dict[str, Callable[[int], Perturbations]] = {
    "gaussian": Gaussian,
    "rademacher": Rademacher,
    "uniform": Uniform,
    "integers": lambda seed: Uniform(seed, half_width=128),
}
"""The last are those of 8 bits, as they come from a generator."""
NARROWED = 10
"""Fraction bits at most of numbers that are added to integers: longer ones leave their coefficients no room."""
GENERATORS = (*_INDEPENDENT, *PezoSpec.presets)


def source_of(
    generator: str, seed: int = 0, settings: Sequence[str] = (), fraction: int | None = None
) -> Perturbations:
    """The source of that name.

    Parameters
    ----------
    generator : str
        One of `GENERATORS`.
    seed : int
        Of independent numbers; a periodic generator has none, see `start_of`. Independent ones keep the last
        perturbation in memory.
    settings : sequence of str
        ``NAME=VALUE`` for parameters of `PezoSpec`.
    fraction : int, optional
        Most fraction bits of a periodic generator's numbers, see `Periodic`.

    Raises
    ------
    UserError
        If there is no such generator or parameter.
    """
    if generator in _INDEPENDENT:
        if settings:
            raise UserError(f"{generator} numbers have no parameters: {settings[0]} belongs to a preset of pezo")
        return CachedPerturbations(_INDEPENDENT[generator](seed))
    if generator not in PezoSpec.presets:
        raise UserError(f"there is no generator {generator!r}; there are: {', '.join(GENERATORS)}")
    spec = build(PezoSpec, settings, generator)
    assert isinstance(spec, PezoSpec)
    short = fraction is not None and fraction < spec.fraction_bits
    return Periodic(spec, fraction=fraction if short else None)


def integer_source_of(generator: str, settings: Sequence[str] = ()) -> Periodic:
    """The periodic source of that name, its numbers short enough to be added to integers.

    Raises
    ------
    UserError
        As `source_of` does, and for one whose numbers are floats.
    """
    source = source_of(generator, 0, settings, NARROWED)
    if not isinstance(source, Periodic):
        known = ", ".join(PezoSpec.presets)
        raise UserError(f"{generator} numbers are floats, which integers cannot be moved by: take one of {known}")
    return source


def start_of(source: Perturbations, seed: int) -> int:
    """Where the first perturbation of a run starts: a place of a periodic generator's sequence for every seed."""
    return int(np.random.default_rng([seed, 4]).integers(source.spec.period)) if isinstance(source, Periodic) else 0
