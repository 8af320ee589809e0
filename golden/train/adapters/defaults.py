"""Settings that go with a network where the user gives none: the papers' where they tell them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """How to pre-train and fine-tune a network, in batches of 20.

    Parameters
    ----------
    pretrain_epochs : int
    pretrain_rate : float
    epochs : int
    rate : float
        Of fine-tuning.
    """

    pretrain_epochs: int
    pretrain_rate: float
    epochs: int
    rate: float


RECIPES = {
    "lenet5-mnist": Recipe(10, 0.1, 10, 0.1),  # InstantFT, section 5.1
    "lenet5-svhn": Recipe(10, 0.1, 10, 0.025),
    "fan": Recipe(100, 0.05, 300, 0.003),  # epochs: Skip2-LoRA, section 5.2; rates are not told
    "har": Recipe(300, 0.05, 600, 0.01),
    "digits": Recipe(40, 0.1, 20, 0.1),
}
OTHER = Recipe(10, 0.05, 10, 0.05)
"""For a user's own network."""
