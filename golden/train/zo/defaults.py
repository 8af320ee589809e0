"""Default settings of zeroth-order fine-tuning, by model: the best of those tried, see docs/zo.md."""

from __future__ import annotations

from dataclasses import dataclass

EPS = 1e-3
"""Length of a perturbation."""
CORE_EPS = 2.0**-10
"""The same on a core, which takes powers of two."""


@dataclass(frozen=True)
class ZoDefaults:
    """Steps, batch and learning rates.

    Parameters
    ----------
    steps, batch : int
    rate : float
        Learning rate where all weights are tuned.
    sparse_rate : float
        Learning rate where only sensitive weights are tuned: with fewer weights a perturbation is shorter, and a step
        may be longer.
    core_rate : float, optional
        Learning rate in a core's integers, where it is another: there batch norm is folded into the weights, whose
        gradients change with it.
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
    """Defaults of a preset network or of "transformer", or those for any other model."""
    return _DEFAULTS.get(model, _OTHER)
