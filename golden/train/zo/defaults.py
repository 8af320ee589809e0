"""Settings that go with a model where the user gives none: of those tried, the best; see docs/zo.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """Of a model.

    Parameters
    ----------
    steps, batch : int
    rate : float
        Learning rate.
    sparse_rate : float
        Of sensitive weights alone: with fewer of them a perturbation is shorter, and a step may be longer.
    """

    steps: int
    batch: int
    rate: float
    sparse_rate: float


_RECIPES = {
    "digits": Recipe(2000, 20, 5e-4, 1e-2),
    "fan": Recipe(500, 20, 1e-4, 2e-3),
    "transformer": Recipe(500, 16, 4e-5, 4e-4),
}
_OTHER = Recipe(1000, 20, 2e-4, 2e-3)


def recipe_of(model: str) -> Recipe:
    """Of a preset, of any "transformer", or of any other."""
    return _RECIPES.get(model, _OTHER)
