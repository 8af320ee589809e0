"""Default learning rates of federated fine-tuning, by network: the best of those tried for each method."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FederatedRates:
    """Learning rates of the three methods.

    Parameters
    ----------
    split : float
        FedSPZO with P1 = 2, P2 = 8 and the cut of `cost_model.stage_of`.
    plain : float
        Federated zeroth order with five perturbations per step.
    fedavg : float
        FedAvg with back-propagation.
    """

    split: float
    plain: float
    fedavg: float


TRANSFORMER = "transformer"
"""Name under which the rates of a transformer stand; plain is one perturbation there, and FedAvg is LoRA with AdamW."""
_RATES = {
    "digits": FederatedRates(0.02, 0.01, 0.05),
    "fan": FederatedRates(0.016, 0.016, 0.05),
    "lenet5-mnist": FederatedRates(0.006, 0.004, 0.05),
    TRANSFORMER: FederatedRates(1.6e-4, 8e-5, 1e-3),
}
_OTHER = FederatedRates(0.001, 0.001, 0.01)


def federated_rates(network: str) -> FederatedRates:
    """Rates of a preset network, or those for any other network."""
    return _RATES.get(network, _OTHER)
