"""Learning rates that go with a network where the user gives none: of those tried, the best of each method."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Of a network.

    Parameters
    ----------
    split : float
        FedSPZO with P1 = 2, P2 = 8, cut where that should save most.
    plain : float
        Federated zeroth order with five perturbations a step.
    fedavg : float
    """

    split: float
    plain: float
    fedavg: float


_RATES = {
    "digits": Rates(0.02, 0.01, 0.05),
    "fan": Rates(0.016, 0.016, 0.05),
    "lenet5-mnist": Rates(0.006, 0.004, 0.05),
}
_OTHER = Rates(0.001, 0.001, 0.01)
"""For any other network."""


def rates_of(network: str) -> Rates:
    """Of a preset, or of any other."""
    return _RATES.get(network, _OTHER)
